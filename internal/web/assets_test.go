package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestVendoredFilesAreWhatTheirChecksumsSay(t *testing.T) {
	list, err := os.ReadFile("assets/VENDORED.sha256")
	must(t, err)
	named := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		want, name, found := strings.Cut(line, "  ")
		if !found {
			t.Fatalf("cannot read %q", line)
		}
		named[name] = true
		content, err := os.ReadFile(filepath.Join("assets", name))
		must(t, err)
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the file that was vendored", name)
		}
	}
	files, err := filepath.Glob("assets/*.min.js")
	must(t, err)
	for _, file := range append(files, "assets/icons.svg") {
		if !named[filepath.Base(file)] {
			t.Errorf("%s has no checksum", file)
		}
	}
}

func TestEveryIconInUseExists(t *testing.T) {
	sprite, err := os.ReadFile("assets/icons.svg")
	must(t, err)
	files, err := filepath.Glob("templates/*.html")
	must(t, err)
	used := regexp.MustCompile(`(?:\{\{icon|template "icon"|badge\{"[a-z]+",) "([a-z0-9-]+)"`)
	code, err := filepath.Glob("*.go")
	must(t, err)
	for _, file := range append(files, code...) {
		content, err := os.ReadFile(file)
		must(t, err)
		for _, found := range used.FindAllStringSubmatch(string(content), -1) {
			if name := found[1]; !strings.Contains(string(sprite), `<symbol id="`+name+`"`) {
				t.Errorf("%s uses the icon %q, which is not in the sprite", file, name)
			}
		}
	}
}
