package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// imageName is the image of every service.
const imageName = "services:1"

// prepareImage makes the image, unless it was made before. It returns a folder with the data of a Docker daemon that holds it: a world
// copies it, which is faster than an import.
func prepareImage(ctx context.Context, root string) (string, error) {
	sum, err := hashOf(filepath.Join(root, "test/incidents/image"), filepath.Join(root, "test/incidents/app"))
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, ".cache", "incidents-image-"+sum)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		filepath.Join(root, "test/incidents/prepare.sh"), folder, imageName)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make the image of the services: %w: %s", err, tail(out, 2000))
	}
	return folder, nil
}

func hashOf(dirs ...string) (string, error) {
	h := sha256.New()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			_, _ = h.Write([]byte(filepath.Base(path)))
			_, _ = h.Write(data)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read %s: %w", dir, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}
