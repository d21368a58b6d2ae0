package handofffile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Delete removes whatever lies in the handoff's place, a folder with all that is in it included, and follows no
// link. Nothing there is fine.
func Delete(dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open state folder: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	err = root.RemoveAll(Name)
	if errors.Is(err, fs.ErrPermission) { // a folder made read-only would otherwise stay for ever
		unlock(root)
		err = root.RemoveAll(Name)
	}
	if err != nil {
		return fmt.Errorf("delete handoff: %w", err)
	}
	return nil
}

// unlock makes the folders below the handoff's name writable as far as it can; the second removal reports the rest.
func unlock(root *os.Root) {
	_ = fs.WalkDir(root.FS(), Name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case entry == nil || !entry.IsDir():
			return nil
		case err != nil:
			return fs.SkipDir
		}
		_ = root.Chmod(path, 0o700)
		return nil
	})
}
