// Package imagetest builds the container images with a real Docker daemon and runs them. No registry is needed: script/setup-tests all makes the
// base image, and the programs come from the build context.
package imagetest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"claudeops/test/dockertest"
	"claudeops/test/realcli"
)

const (
	root      = "../.."
	baseImage = "claudeops-base:test"
	fullImage = "claudeops" // as the README names it
	slimImage = "claudeops:slim"
	token     = "a-token-of-more-than-twenty-letters"
)

// place is a folder that looks like a checkout, with built programs in dist.
var place string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "claudeops-image-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	place = dir
	return m.Run()
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// argument is the default of an argument of the Dockerfile.
func argument(t testing.TB, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^ARG ` + name + `="?([^"\n]*)"?$`).FindStringSubmatch(readFile(t, filepath.Join(root, "Dockerfile")))
	if m == nil {
		t.Fatalf("the Dockerfile has no argument %s", name)
	}
	return m[1]
}

// base is the tarball that script/setup-tests all made.
func base(t testing.TB) string {
	t.Helper()
	suite := strings.TrimSuffix(strings.TrimPrefix(argument(t, "BASE"), "debian:"), "-slim")
	sum := sha256.Sum256([]byte(suite + " " + argument(t, "PACKAGES")))
	path, err := filepath.Abs(filepath.Join(root, ".cache", fmt.Sprintf("image-base-%x.tar", sum[:6])))
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run script/setup-tests all", err)
	}
	return path
}

// sources are the files and folders from which the image compiles the program.
func sources(t testing.TB) (out []string) {
	t.Helper()
	text := readFile(t, filepath.Join(root, "Dockerfile"))
	stage := text[strings.Index(text, " ${GO} AS build"):strings.Index(text, "ARG PROGRAM")]
	for _, m := range regexp.MustCompile(`(?m)^COPY (.*) \S+$`).FindAllStringSubmatch(stage, -1) {
		out = append(out, strings.Fields(m[1])...)
	}
	if len(out) < 5 {
		t.Fatalf("the Dockerfile copies only %v", out)
	}
	return out
}

// The tests give the image a built program. What it would be compiled from must be complete, too.
func TestTheImageHasAllSources(t *testing.T) {
	dir := t.TempDir()
	for _, name := range sources(t) {
		if out, err := exec.Command("cp", "-r", filepath.Join(root, name), filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Error}}{{.}}{{end}}", "./cmd/claudeops")
	list.Dir = dir
	if out, err := list.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("the Dockerfile does not copy everything: %v: %s", err, out)
	}
}

// buildArguments replace what a build would get from a registry and the network.
func buildArguments() []string {
	var out []string
	for _, pair := range []string{
		"BASE=" + baseImage, "GO=" + baseImage, "NODE=" + baseImage, "PROGRAM=dist/claudeops", "CLAUDE_CODE=dist/claude",
	} {
		out = append(out, "--build-arg", pair)
	}
	return out
}

var (
	once  sync.Once
	built bool
)

// images returns a daemon that has all images, and the folder that looks like a checkout.
func images(t *testing.T) *dockertest.Daemon {
	t.Helper()
	d := dockertest.Shared(t)
	once.Do(func() { build(t, d) })
	if !built {
		t.Fatal("the images could not be built")
	}
	return d
}

func build(t *testing.T, d *dockertest.Daemon) {
	t.Helper()
	for _, name := range append(sources(t), "Dockerfile", ".dockerignore", "LICENSE") {
		if out, err := exec.Command("cp", "-r", filepath.Join(root, name), filepath.Join(place, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	dist := filepath.Join(place, "dist")
	must(t, os.Mkdir(dist, 0o700))
	compile := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dist, "claudeops"), "claudeops/cmd/claudeops")
	compile.Env = append(compile.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("build claudeops: %v: %s", err, out)
	}
	link(t, realcli.Path(t), filepath.Join(dist, "claude"))
	p := &project{t: t, d: d, dir: place}
	p.run("docker", "import", base(t), baseImage)
	p.run("docker", slices.Concat([]string{"build", "-t", slimImage, "--target", "slim"}, buildArguments(), []string{place})...)
	p.run("docker", slices.Concat([]string{"build", "-t", fullImage}, buildArguments(), []string{place})...)
	// `docker compose` of the base image; older machines have `docker-compose` only.
	plugins := filepath.Join(d.Dir, ".docker", "cli-plugins")
	must(t, os.MkdirAll(plugins, 0o700))
	out, err := exec.Command("tar", "-xf", base(t), "-C", plugins, "--strip-components=5", "./usr/libexec/docker/cli-plugins/docker-compose").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	built = true
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // the container reads it as another user
		t.Fatal(err)
	}
}

// link gives a file a second name, or copies it to another disk.
func link(t *testing.T, from, to string) {
	t.Helper()
	from, err := filepath.EvalSymlinks(from)
	must(t, err)
	if os.Link(from, to) == nil {
		return
	}
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// program writes a program.
func program(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
