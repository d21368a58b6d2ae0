//go:build !linux

package handofffile

func open(folder, flags int) (fd int, err error) { return openPlain(folder, flags) }
