//go:build linux

package packagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const version = "1.1.0"

// made is a release for this platform alone.
type made struct{ binaries, dist string }

var (
	shared  string // removed by TestMain
	release = sync.OnceValues(makeRelease)
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "claudeops-package-")
	if err != nil {
		panic(err)
	}
	shared = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func command(dir string, env []string, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // commands of the tests
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.New(strings.Join(argv, " ") + ": " + err.Error() + "\n" + string(out))
	}
	return nil
}

func makeRelease() (made, error) {
	top := filepath.Join("..", "..")
	m := made{filepath.Join(shared, "binaries"), filepath.Join(shared, "dist")}
	if err := command(top, nil, "make", "tools/bin/nfpm"); err != nil {
		return m, err
	}
	if err := buildProgram(filepath.Join(m.binaries, "linux-amd64", "claudeops")); err != nil {
		return m, err
	}
	notes := "# Changelog\n\n## " + version + "\n\n### Added\n\n- Tests.\n"
	if err := os.WriteFile(filepath.Join(shared, "CHANGELOG.md"), []byte(notes), 0o600); err != nil {
		return m, err
	}
	return m, runRelease(m.binaries, m.dist)
}

func buildProgram(target string) error {
	return command(filepath.Join("..", ".."), []string{"CGO_ENABLED=0", "GOFLAGS="}, "go", "build", "-trimpath",
		"-ldflags", "-s -w -buildid= -X main.version="+version, "-o", target, "./cmd/claudeops")
}

func runRelease(binaries, dist string) error {
	return command(filepath.Join("..", ".."),
		[]string{"VERSION=v" + version, "PLATFORMS=linux/amd64", "RELEASE_BINARIES=" + binaries, "GOVULNCHECK=true", "SIGNING_KEY=", "CHANGELOG=" + filepath.Join(shared, "CHANGELOG.md")}, "script/release", "--no-images", dist)
}

func theRelease(t *testing.T) made {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "go", "env", "GOHOSTARCH").Output(); err != nil || strings.TrimSpace(string(out)) != "amd64" {
		t.Skip("the tests of packages run on amd64")
	}
	m, err := release()
	must(t, err)
	return m
}

func (m made) deb() string { return filepath.Join(m.dist, "claudeops_"+version+"-1_amd64.deb") }

func (m made) rpm() string { return filepath.Join(m.dist, "claudeops-"+version+"-1.x86_64.rpm") }

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	return raw
}

func TestTwoReleasesOfOneCommitAreIdentical(t *testing.T) {
	m := theRelease(t)
	again := filepath.Join(t.TempDir(), "claudeops")
	must(t, buildProgram(again))
	if !bytes.Equal(read(t, again), read(t, filepath.Join(m.binaries, "linux-amd64", "claudeops"))) {
		t.Error("two builds of the program differ")
	}
	dist := filepath.Join(t.TempDir(), "dist")
	must(t, runRelease(m.binaries, dist))
	names, err := filepath.Glob(filepath.Join(m.dist, "*"))
	if err != nil || len(names) != 11 {
		t.Fatalf("the release is %v, %v", names, err)
	}
	for _, name := range names {
		if !bytes.Equal(read(t, name), read(t, filepath.Join(dist, filepath.Base(name)))) {
			t.Errorf("%s differs", filepath.Base(name))
		}
	}
	parts, err := exec.CommandContext(t.Context(), "sh", "-c", `ar t "$1" && rpm --query --package --queryformat '%{PAYLOADCOMPRESSOR}' "$2"`, "sh", m.deb(), m.rpm()).CombinedOutput()
	if err != nil || !strings.Contains(string(parts), "data.tar.zst\n") || !strings.HasSuffix(string(parts), "zstd") {
		t.Errorf("the packages are compressed as %s, %v", parts, err)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = m.dist
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 10 {
		t.Errorf("checksums: %v\n%s", err, out)
	}
}

func TestEveryPartOfAReleaseHasItsVersion(t *testing.T) {
	m := theRelease(t)
	top := "claudeops_" + version + "_linux_amd64/"
	found := map[string]string{}
	packed, err := gzip.NewReader(bytes.NewReader(read(t, filepath.Join(m.dist, "claudeops_"+version+"_linux_amd64.tar.gz"))))
	must(t, err)
	before := ""
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if h.Name <= before || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !strings.HasPrefix(h.Name, top) && h.Name != top {
			t.Errorf("entry %+v after %s", h, before)
		}
		before = h.Name
		text, err := io.ReadAll(r)
		must(t, err)
		found[strings.TrimPrefix(h.Name, top)] = string(text)
	}
	for _, name := range []string{
		"claudeops", "LICENSE", "CHANGELOG.md", "completions/claudeops.bash", "completions/_claudeops", "completions/claudeops.fish",
		"man/claudeops-serve.1.gz", "systemd/claudeops.service", "systemd/claudeops.sysusers", "config/claudeops.yaml", "examples/actions.conf",
		"examples/prometheus-rules.yml", "examples/grafana-dashboard.json",
	} {
		if found[name] == "" {
			t.Errorf("the archive has no %s", name)
		}
	}
	contains(t, "unit", found["systemd/claudeops.service"], "Claude Ops "+version)
	page, err := gzip.NewReader(strings.NewReader(found["man/claudeops.1.gz"]))
	must(t, err)
	text, err := io.ReadAll(page)
	must(t, err)
	contains(t, "manual page", string(text), `"claudeops `+version+`"`, ".SH FILES", ".SH EXIT STATUS")
	notes := string(read(t, filepath.Join(m.dist, "RELEASE_NOTES.md")))
	contains(t, "release notes", notes, "# Claude Ops "+version, "### ")
	var made struct {
		Version  string
		Binaries []struct {
			Platform, SHA256 string
			Build            struct{ Path, GoVersion string }
		}
	}
	must(t, json.Unmarshal(read(t, filepath.Join(m.dist, "provenance.json")), &made))
	if made.Version != version || len(made.Binaries) != 1 || made.Binaries[0].Build.Path != "claudeops/cmd/claudeops" || len(made.Binaries[0].SHA256) != 64 {
		t.Errorf("provenance is %+v", made)
	}
}

func TestManualPagesAreWellFormed(t *testing.T) {
	dir := t.TempDir()
	must(t, command(filepath.Join("..", ".."), nil, "go", "run", "./test/manual", dir))
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 60 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	args := append([]string{"-man", "-ww", "-z", "-Tutf8", "-K", "utf8"}, pages...)
	if out, err := exec.CommandContext(t.Context(), "groff", args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

func TestLintersFindNoErrors(t *testing.T) {
	m := theRelease(t)
	// It does not know the compression that dpkg has read since Debian 12.
	out, err := exec.CommandContext(t.Context(), "lintian", "--suppress-tags", "malformed-deb-archive", "--fail-on", "error", "--no-tag-display-limit", m.deb()).CombinedOutput()
	if err != nil {
		t.Errorf("lintian: %v\n%s", err, out)
	}
	config := filepath.Join(checkout(t), "packaging", "rpm", "rpmlint.toml")
	rpmlint := exec.CommandContext(t.Context(), "rpmlint", "-c", config, m.rpm())
	rpmlint.Env = []string{"LC_ALL=C.UTF-8", "PATH=" + relativeCpio(t) + ":/usr/bin:/bin"}
	before := installed(t, m.rpm())
	out, err = rpmlint.CombinedOutput()
	if err != nil || !strings.Contains(string(out), " 0 errors") {
		t.Errorf("rpmlint: %v\n%s", err, out)
	}
	for path, now := range installed(t, m.rpm()) {
		if now != before[path] {
			t.Errorf("rpmlint changed %s on this machine: it was %q and is %q", path, before[path], now)
		}
	}
}

// installed tells of each path in a package what is at that path on this machine: nothing, or a file with its attributes.
func installed(t *testing.T, rpm string) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "rpm", "--query", "--package", "--list", rpm).Output()
	if err != nil {
		t.Fatalf("list the files of the package: %v", err)
	}
	found := map[string]string{}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		switch info, err := os.Lstat(path); {
		case err == nil:
			found[path] = fmt.Sprintf("%s %d %s %d", info.Mode(), info.Size(), info.ModTime(), info.Sys().(*syscall.Stat_t).Ino)
		case errors.Is(err, fs.ErrNotExist):
			found[path] = ""
		default:
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/usr/bin/claudeops", "/etc/claudeops/claudeops.yaml", "/usr/lib/systemd/system/claudeops.service"} {
		if _, ok := found[path]; !ok {
			t.Errorf("the list of the package lacks %s:\n%s", path, out)
		}
	}
	return found
}

// relativeCpio is a folder with a cpio that unpacks into the current folder. rpmlint calls cpio without the option, and the names in
// the package are absolute: the test would put the package onto the machine.
func relativeCpio(t *testing.T) string {
	dir := t.TempDir()
	script := "#!/bin/sh\nexec /usr/bin/cpio --no-absolute-filenames \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "cpio"), []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return dir
}

// Tenths of the points from 0, safe, to 10, unsafe.
const mostExposure = "36"

func TestTheUnitIsHardened(t *testing.T) {
	unit := filepath.Join(checkout(t), "packaging", "systemd", "claudeops.service")
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+mostExposure, unit).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
