# Finds cuda.h and cudaTypedefs.h in the Python wheel nvidia-cuda-runtime, so that no CUDA toolkit is needed.
# Sets TESSERA_CUDA_INCLUDE_DIR; TESSERA_CUDA_INCLUDE overrides the search.
if(TESSERA_CUDA_INCLUDE)
  set(TESSERA_CUDA_INCLUDE_DIR ${TESSERA_CUDA_INCLUDE})
else()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c [[
import pathlib, nvidia
print(next(str(d) for p in nvidia.__path__ for d in [pathlib.Path(p, "cu13", "include")] if (d / "cuda.h").exists()))
]]
    OUTPUT_VARIABLE TESSERA_CUDA_INCLUDE_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT EXISTS ${TESSERA_CUDA_INCLUDE_DIR}/cudaTypedefs.h)
  message(FATAL_ERROR "No CUDA 13.0 headers: install the Python package nvidia-cuda-runtime (13.0) for ${Python3_EXECUTABLE}, "
                      "or set TESSERA_CUDA_INCLUDE to the directory of cuda.h")
endif()
