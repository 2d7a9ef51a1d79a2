package kube

// soReusePort is SO_REUSEPORT, which package syscall does not define on every
// platform.
const soReusePort = 0xf
