install(TARGETS hindmost hindmost_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${DUCKDB_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/hindmost DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES docs/hindmost.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
# The prefix as seen from the folder of the .pc file, so that the tree can be moved: lib or lib/x86_64-linux-gnu may be the libdir.
file(RELATIVE_PATH HM_PREFIX_FROM_PC "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/hindmost.pc.in hindmost.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/hindmost.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
