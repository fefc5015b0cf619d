# Finds cuda.h and cudaTypedefs.h in the Python wheel nvidia-cuda-runtime, so that no CUDA toolkit is needed, and copies the headers
# into the build directory: an isolated Python build has them at another path each time, which would compile everything again.
# Sets TESSERA_CUDA_INCLUDE_DIR; TESSERA_CUDA_INCLUDE overrides the search.
if(TESSERA_CUDA_INCLUDE)
  set(found ${TESSERA_CUDA_INCLUDE})
else()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c [[
import pathlib, nvidia
print(next(str(d) for p in nvidia.__path__ for d in [pathlib.Path(p, "cu13", "include")] if (d / "cuda.h").exists()))
]]
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT EXISTS ${found}/cudaTypedefs.h)
  message(FATAL_ERROR "No CUDA 13.0 headers: install the Python package nvidia-cuda-runtime (13.0) for ${Python3_EXECUTABLE}, "
                      "or set TESSERA_CUDA_INCLUDE to the directory of cuda.h")
endif()

set(TESSERA_CUDA_INCLUDE_DIR ${CMAKE_BINARY_DIR}/cuda-headers)
file(GLOB headers RELATIVE ${found} ${found}/*.h ${found}/*.hpp ${found}/crt/*.h ${found}/crt/*.hpp)
foreach(header IN LISTS headers)
  get_filename_component(directory ${TESSERA_CUDA_INCLUDE_DIR}/${header} DIRECTORY)
  file(MAKE_DIRECTORY ${directory})
  file(COPY_FILE ${found}/${header} ${TESSERA_CUDA_INCLUDE_DIR}/${header} ONLY_IF_DIFFERENT)
endforeach()
