# tsr_link_old_glibc(TARGET): binds the target to the symbols of glibc 2.28, whichever glibc it is built with.
#
# What glibc 2.34 moved from libpthread and libdl into libc has a version of its own there, which systems before it lack; they have the same
# functions under their old versions, and glibc keeps these for good. The linker takes what it finds first: here, libraries that hold nothing
# but those names and versions. Functions that are newer than 2.28 are not used (tests/unit/test_glibc.py).
set(TSR_OLD_GLIBC "")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT TESSERA_SANITIZE)
  set(TSR_OLD_GLIBC tsr_old_libpthread tsr_old_libdl)
endif()

# Each symbol is given as VERSION:NAME, older versions first.
function(tsr_old_library target soname)
  set(code "")
  set(map "")
  set(open "")
  foreach(each IN LISTS ARGN)
    string(REPLACE ":" ";" parts ${each})
    list(GET parts 0 version)
    list(GET parts 1 name)
    string(APPEND code "void ${name}(void);\nvoid ${name}(void) {}\n")
    if(NOT version STREQUAL open)
      if(open)
        string(APPEND map "};\n")
      endif()
      string(APPEND map "${version} {\n")
      set(open ${version})
    endif()
    string(APPEND map "  ${name};\n")
  endforeach()
  string(APPEND map "};\n")
  set(folder ${CMAKE_BINARY_DIR}/old_glibc)
  file(CONFIGURE OUTPUT ${folder}/${target}.c CONTENT "${code}")
  file(CONFIGURE OUTPUT ${folder}/${target}.map CONTENT "${map}")
  add_library(${target} SHARED ${folder}/${target}.c)
  target_compile_options(${target} PRIVATE -w -fno-builtin -fvisibility=default -fno-lto)
  target_link_options(${target} PRIVATE -nostdlib -Wl,--version-script,${folder}/${target}.map -Wl,-soname,${soname})
  set_target_properties(${target} PROPERTIES
    NO_SONAME ON PREFIX "" OUTPUT_NAME ${soname} SUFFIX "" LIBRARY_OUTPUT_DIRECTORY ${folder})
endfunction()

if(TSR_OLD_GLIBC)
  set(threads create detach join once key_create key_delete getspecific setspecific mutex_trylock mutex_timedlock mutexattr_init
      mutexattr_destroy mutexattr_settype rwlock_init rwlock_destroy rwlock_rdlock rwlock_tryrdlock rwlock_wrlock rwlock_trywrlock
      rwlock_unlock sigmask kill)
  list(TRANSFORM threads PREPEND "GLIBC_2.2.5:pthread_")
  tsr_old_library(tsr_old_libpthread libpthread.so.0 ${threads} GLIBC_2.3.3:pthread_condattr_setclock GLIBC_2.12:pthread_setname_np)
  set(loader dlopen dlclose dlsym dlvsym dlerror dladdr)
  list(TRANSFORM loader PREPEND "GLIBC_2.2.5:")
  tsr_old_library(tsr_old_libdl libdl.so.2 ${loader} GLIBC_2.3.3:dladdr1)
endif()

# After all else that the target links: the linker drops what nothing has asked for yet.
function(tsr_link_old_glibc target)
  if(TSR_OLD_GLIBC)
    list(TRANSFORM TSR_OLD_GLIBC REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
    list(JOIN files "," files)
    target_link_libraries(${target} PRIVATE "-Wl,--push-state,--as-needed,${files},--pop-state")
    add_dependencies(${target} ${TSR_OLD_GLIBC})
  endif()
endfunction()
