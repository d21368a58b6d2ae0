// Package packagetest tests what a release consists of: archives, packages and the service unit. The packages are installed on a small
// Debian system with systemd as its first process, which script/setup-tests all makes and the kernel keeps apart from this machine.
package packagetest
