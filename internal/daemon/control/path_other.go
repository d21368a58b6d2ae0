//go:build !linux

package control

import "path/filepath"

func shortPath(stateDir string) (string, func(), error) {
	return filepath.Join(stateDir, socketName), func() {}, nil
}
