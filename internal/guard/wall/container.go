package wall

import "os"

// InContainer reports whether this program runs in a container of Docker or Podman.
func InContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}
