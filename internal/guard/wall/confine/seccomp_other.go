//go:build linux && !amd64 && !arm64

package confine

import "errors"

// SeccompAvailable reports whether the filter can be set on this architecture and kernel.
func SeccompAvailable() bool { return false }

func filterCalls(w *Wall) error {
	if w.Best && !w.NoUnix && !w.KeepMetadata && len(w.Ports) == 0 {
		return nil
	}
	return errors.New("there is no seccomp filter for this architecture")
}
