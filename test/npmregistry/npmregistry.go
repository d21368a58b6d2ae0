// Package npmregistry is a registry of npm on loopback that holds one package.
package npmregistry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// Package is a package with its archive.
type Package struct {
	Name    string // with its version behind an @
	Archive []byte
	Told    string // the checksum that the registry tells; left empty: that of the archive
}

// Archive makes the archive of a package with one file.
func Archive(t testing.TB, file, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, entry := range [][2]string{{"package/package.json", `{"name":"x","version":"1.0.0"}`}, {file, text}} {
		if err := w.WriteHeader(&tar.Header{Name: entry[0], Mode: 0o755, Size: int64(len(entry[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(entry[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Sum is the checksum of an archive as npm writes it.
func Sum(archive []byte) string {
	sum := sha512.Sum512(archive)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Env starts a registry that ends with the test, and returns an environment in which npm uses it and nothing else of this machine.
func Env(t testing.TB, p Package) []string {
	t.Helper()
	at := strings.LastIndex(p.Name, "@")
	name, version := p.Name[:at], p.Name[at+1:]
	if p.Told == "" {
		p.Told = Sum(p.Archive)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/archive.tgz":
			_, _ = w.Write(p.Archive)
		case "/" + name:
			_ = json.NewEncoder(w).Encode(map[string]any{
				"name": name, "dist-tags": map[string]any{"latest": version}, "versions": map[string]any{version: map[string]any{
					"name": name, "version": version, "dist": map[string]any{"tarball": "http://" + r.Host + "/archive.tgz", "integrity": p.Told},
				}},
			})
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	home := t.TempDir()
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "npm_config_registry=" + s.URL,
		"npm_config_cache=" + filepath.Join(home, "cache"), "npm_config_fetch_retries=0", "npm_config_update_notifier=false",
	}
}
