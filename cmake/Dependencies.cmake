# The libraries that docs/architecture.md names. Debian's come through pkg-config; DuckDB from the npm packages that
# scripts/setup puts under .deps.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

find_path(DUCKDB_INCLUDE duckdb.h PATHS ${HM_DEPS}/node_modules/duckdb/src/duckdb/src/include NO_DEFAULT_PATH)
find_library(DUCKDB_LIBRARY duckdb PATHS ${HM_DEPS}/node_modules/@duckdb/node-bindings-linux-x64 NO_DEFAULT_PATH)
if(NOT DUCKDB_INCLUDE OR NOT DUCKDB_LIBRARY)
  message(FATAL_ERROR "DuckDB is missing under ${HM_DEPS}; run scripts/setup first")
endif()

add_library(hm_dependencies INTERFACE)
target_include_directories(hm_dependencies SYSTEM INTERFACE ${DUCKDB_INCLUDE})
target_link_libraries(hm_dependencies INTERFACE ${DUCKDB_LIBRARY} Threads::Threads m dl)
foreach(package zlib jansson yaml-0.1 sqlite3 libmicrohttpd)
  pkg_check_modules(${package} REQUIRED IMPORTED_TARGET ${package})
  target_link_libraries(hm_dependencies INTERFACE PkgConfig::${package})
endforeach()
