package codex

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

func emptyHome(parent string) error {
	root, err := os.OpenRoot(parent)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(homeName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return root.Mkdir(homeName, 0o700)
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is not a folder")
	}
	folder, err := root.Open(homeName)
	if err != nil {
		return err
	}
	names, err := folder.Readdirnames(-1)
	if err := errors.Join(err, folder.Close()); err != nil {
		return err
	}
	for _, entry := range names {
		if entry == keptInHome {
			continue
		}
		if err := root.RemoveAll(homeName + "/" + entry); err != nil {
			return fmt.Errorf("remove %s: %w", entry, err)
		}
	}
	return nil
}
