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

// prepareImage makes the file system of the image, unless it was made before. It returns its archive.
func prepareImage(ctx context.Context, root string) (string, error) {
	sum, err := hashOf(filepath.Join(root, "test/incidents/image"), filepath.Join(root, "test/incidents/app"))
	if err != nil {
		return "", err
	}
	archive := filepath.Join(root, ".cache", "incidents-"+sum+".tar")
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	const script = `set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$work/app" ./test/incidents/app
test/incidents/image/build "$work/root" "$work/app"
mkdir -p .cache
rm -f .cache/incidents-*.tar
tar -C "$work/root" -cf "$1.part" .
mv "$1.part" "$1"`
	cmd := exec.CommandContext(ctx, "bash", "-c", script, "bash", archive)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make the image of the services: %w: %s", err, tail(out, 2000))
	}
	return archive, nil
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
