package claude

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"claudeops/internal/agent"
)

const openMode = 0o755 // agents run as another user, whatever the umask is

// KnownVersion is the version that is installed: the one that the tests run.
const KnownVersion = "2.1.325"

// Package is a package of npm that holds the native program, and its checksum as npm writes it.
type Package struct{ Name, Sum string }

// KnownPackage is the one for this machine.
func KnownPackage() (Package, error) {
	platform := map[string]string{"amd64": "linux-x64", "arm64": "linux-arm64"}[runtime.GOARCH]
	if found, _ := filepath.Glob("/lib/ld-musl-*.so.1"); len(found) > 0 {
		platform += "-musl"
	}
	sum := map[string]string{
		"linux-x64":        "sha512-BqZzMvP/zgLLL34S+7OzbG+cyoFp7gwWHU5koVwsyMlTAz+0zZAmbY+UkzvtN2RXxp6AcMenbYIjQJxoXfUY3w==",
		"linux-arm64":      "sha512-NCvQcOxr685Y4mkYUjQT8l/Ouzw0k2xWloWeyzfsUtWiOedHosPkaW6XCSpzAl1dMuvDNBF97qpWgVDrSdK2Vw==",
		"linux-x64-musl":   "sha512-oGdN1c/gsReTlQ5lAktxX8AV7bt3USQsGrTDlFjf+bdIk7Kc8GCTZLGS7aBh59vGsgn4Oz255v/SSZ7+6wWz6g==",
		"linux-arm64-musl": "sha512-xZLgceKCX42bUXTqz3Cd1Tc7Li43ys8+gO1SA8ZKJ4q+a0ALv+N2LHQUC1Sr+AY3Qv16VQU/yAvU/iS24CuJdg==",
	}[platform]
	if sum == "" || runtime.GOOS != "linux" {
		return Package{}, fmt.Errorf("claudeops knows no package of Claude Code for %s on %s: install it yourself, %s",
			runtime.GOOS, runtime.GOARCH, whereItIs)
	}
	return Package{"@anthropic-ai/claude-code-" + platform + "@" + KnownVersion, sum}, nil
}

// Install puts the program of a package into a folder and returns its path. Only what has the checksum is unpacked, and only a program that
// says it is the known version takes the place of one that is there.
func Install(ctx context.Context, p Package, folder string, env []string) (string, error) {
	npm, err := agent.Find("npm", "", env)
	if err != nil {
		return "", fmt.Errorf("npm, which downloads and needs to be there only for that, was not found in PATH: install it, or copy the program "+
			"claude, version %s, to %s", KnownVersion, folder)
	}
	if err = os.MkdirAll(filepath.Dir(folder), 0o700); err == nil {
		err = os.Mkdir(folder, openMode)
	}
	if err == nil {
		err = os.Chmod(folder, openMode)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make folder: %w", err)
	}
	dir, err := os.MkdirTemp(folder, ".install-*")
	if err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	//nolint:gosec // the operator's npm
	pack := exec.CommandContext(ctx, npm, "pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", dir, p.Name)
	pack.Dir, pack.Env = dir, env
	if out, err := pack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("download %s with npm: %w: %s", p.Name, err, strings.TrimSpace(string(out)))
	}
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if len(archives) != 1 {
		return "", fmt.Errorf("download %s with npm: it left %d archives", p.Name, len(archives))
	}
	program := filepath.Join(dir, "claude")
	if err := unpack(archives[0], p.Sum, program); err != nil {
		return "", fmt.Errorf("unpack %s: %w; nothing was installed", p.Name, err)
	}
	able := New(Options{Bin: program}).Able(ctx, env)
	if able.Version != KnownVersion {
		return "", fmt.Errorf("the program of %s says it is version %q; nothing was installed: %s", p.Name, able.Version, able.Why)
	}
	path := filepath.Join(folder, "claude")
	if err := os.Rename(program, path); err != nil {
		return "", fmt.Errorf("put the program in its place: %w", err)
	}
	return path, nil
}

// unpack writes the program of an archive that has the checksum.
func unpack(archive, sum, program string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	hash := sha512.New()
	if _, err := io.Copy(hash, file); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != sum {
		return fmt.Errorf("its checksum is %s and not %s, so it is not what was published: does npm use a mirror that changes it?", got, sum)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for entries := tar.NewReader(unzipped); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("it holds no program")
		}
		if err != nil {
			return err
		}
		if entry.Name != "package/claude" || entry.Typeflag != tar.TypeReg {
			continue
		}
		out, err := os.OpenFile(program, os.O_CREATE|os.O_EXCL|os.O_WRONLY, openMode)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, entries) //nolint:gosec // the checksum says how large it is
		return errors.Join(err, out.Chmod(openMode), out.Close())
	}
}
