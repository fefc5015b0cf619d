# tsr_add_directory(DIR): adds DIR when it exists and is wanted; its target tsr_<last part of DIR> joins TSR_LIBRARIES.
macro(tsr_add_directory directory)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${directory}/CMakeLists.txt
     AND (NOT TESSERA_ONLY OR ${directory} IN_LIST TESSERA_ONLY))
    add_subdirectory(${directory})
    get_filename_component(leaf ${directory} NAME)
    if(TARGET tsr_${leaf})
      list(APPEND TSR_LIBRARIES tsr_${leaf})
    endif()
  endif()
endmacro()

# tsr_library(NAME SOURCE...): the static, position-independent library of one directory.
function(tsr_library name)
  add_library(${name} STATIC ${ARGN})
endfunction()

# tsr_shared_library(TARGET FILE PLACE WHOLE... [LINK...]): a library that programs load. Its file name and SONAME are FILE, the
# archives after WHOLE go in completely (they hold the exported functions), those after LINK as needed. Built in
# <build>/native/PLACE, installed in the wheel as ptxtools/native/PLACE/FILE. MAP names a linker version script.
function(tsr_shared_library target file place)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "MAP" "SOURCES;WHOLE;LINK")
  if(NOT arg_SOURCES) # CMake wants one
    set(arg_SOURCES ${CMAKE_CURRENT_BINARY_DIR}/${target}_empty.c)
    file(CONFIGURE OUTPUT ${arg_SOURCES} CONTENT "typedef int tsr_empty;\n")
  endif()
  add_library(${target} SHARED ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${file} SUFFIX "" NO_SONAME ON LINKER_LANGUAGE C
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/native/${place})
  target_link_options(${target} PRIVATE -Wl,-soname,${file})
  if(arg_MAP)
    target_link_options(${target} PRIVATE -Wl,--version-script,${arg_MAP})
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${arg_MAP})
  endif()
  if(arg_WHOLE)
    list(JOIN arg_WHOLE "," whole)
    target_link_libraries(${target} PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${whole}>")
  endif()
  if(arg_LINK)
    list(JOIN arg_LINK "," link)
    target_link_libraries(${target} PRIVATE "$<LINK_GROUP:RESCAN,${link}>")
  endif()
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS} m)
  tsr_link_old_glibc(${target})
  install(TARGETS ${target} LIBRARY DESTINATION ptxtools/native/${place})
endfunction()
