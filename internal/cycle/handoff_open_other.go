//go:build !linux

package cycle

func openHandoff(folder, flags int) (fd int, err error) { return openPlain(folder, flags) }
