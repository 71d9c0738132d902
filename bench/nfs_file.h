/* Files on an NFS server, for bench/buffers: version 3 by libnfs, a client in user space, so that no mount is needed.
 *
 * Eight transfers are under way at a time, each as large as the server takes, as the kernel's client has it. An error ends the
 * program, and so does the first call where the build found no libnfs. One thread. */
#ifndef KEDGE_BENCH_NFS_FILE_H
#define KEDGE_BENCH_NFS_FILE_H

#include <stddef.h>

struct nfs_context;

/* `url`: nfs://SERVER/EXPORT/FILE?nfsport=PORT&version=3 */
struct nfs_context* nfs_file_connect(const char* url);
void nfs_file_disconnect(struct nfs_context* nfs); /* may be null */

/* Durable when it returns. */
void nfs_file_write(struct nfs_context* nfs, const char* url, const char* data, size_t bytes);
void nfs_file_read(struct nfs_context* nfs, const char* url, char* data, size_t bytes);

#endif
