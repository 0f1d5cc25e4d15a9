# Removes what the last `cmake --install` of this build folder wrote, by the list that it keeps, from
# DESTDIR if that is set; then the folders of singa-ws that are empty. Needs BINARY_DIR.
set(list ${BINARY_DIR}/install_manifest.txt)
if(NOT EXISTS ${list})
    message(FATAL_ERROR "there is no ${list}: nothing was installed from this folder")
endif()
file(STRINGS ${list} files ENCODING UTF-8)

set(folders "")
foreach(file IN LISTS files)
    set(path "$ENV{DESTDIR}${file}")
    if(EXISTS "${path}" OR IS_SYMLINK "${path}")
        message(STATUS "removing ${path}")
        file(REMOVE "${path}")
        if(EXISTS "${path}" OR IS_SYMLINK "${path}")
            message(FATAL_ERROR "${path} could not be removed: is this the user who installed it?")
        endif()
    endif()
    # The folders that only singa-ws has: below the prefix, from the one with its name.
    set(folder "${path}")
    while(folder MATCHES "/(singa|singa-ws|libsinga[^/]*)/")
        get_filename_component(folder "${folder}" DIRECTORY)
        list(APPEND folders "${folder}")
    endwhile()
endforeach()

# The deepest first: a longer path of the same branch comes before its parents.
list(REMOVE_DUPLICATES folders)
list(SORT folders ORDER DESCENDING)
foreach(folder IN LISTS folders)
    execute_process(COMMAND rmdir "${folder}" ERROR_QUIET) # fails where something else is inside
endforeach()
file(REMOVE ${list})
