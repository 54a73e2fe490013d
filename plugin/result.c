/*
 * result.c - the one place where errno becomes ncclResult_t.
 */
#include "plugin/result.h"

#include <errno.h>

ncclResult_t sxt_result(int rc)
{
	switch (-rc) {
	case 0:
		return ncclSuccess;
	case ECONNREFUSED:
	case ECONNRESET:
	case EREMOTEIO:
	case ETIMEDOUT:
	case EPIPE:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EPROTO:
		return ncclRemoteError;
	case EINVAL:
	case EFAULT:
	case EBADMSG:
		return ncclInvalidArgument;
	case EMSGSIZE:
	case EOPNOTSUPP:
		return ncclInvalidUsage;
	case ENODEV:
	case ENOENT:
	case ENOMEM:
	case ENOSYS:
	case EACCES:
	case EPERM:
	case EMFILE:
	case ENFILE:
	case EIO:
	case ENETDOWN:
	case EADDRNOTAVAIL:
	case EADDRINUSE:
	case ENOBUFS:
	case ENOSPC:
	case EBUSY:
		return ncclSystemError;
	default:
		return ncclInternalError;
	}
}
