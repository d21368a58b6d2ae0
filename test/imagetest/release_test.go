package imagetest

import (
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A release holds images for two platforms, and publishing puts them under one name. What builds the other platform's slim image runs here.
func TestAReleaseHasImagesForTwoPlatforms(t *testing.T) {
	d := images(t)
	dir := t.TempDir()
	p := &project{t: t, d: d, dir: root}
	other := exec.Command("go", "build", "-o", filepath.Join(dir, "programs/linux-arm64/claudeops"), "claudeops/test/installtest/tiny")
	other.Env = append(other.Environ(), "CGO_ENABLED=0", "GOARCH=arm64")
	if out, err := other.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.run("mkdir", "-p", filepath.Join(dir, "programs/linux-amd64"), filepath.Join(dir, "agent/claude"))
	link(t, filepath.Join(place, "dist/claudeops"), filepath.Join(dir, "programs/linux-amd64/claudeops"))
	// An image in the place of the one with npm: it has Claude Code already.
	link(t, filepath.Join(place, "dist/claude"), filepath.Join(dir, "agent/claude/claude"))
	write(t, filepath.Join(dir, "agent/Dockerfile"), "FROM "+baseImage+"\nCOPY claude /claude\n")
	p.run("docker", "build", "--quiet", "--tag", "claudeops-agent:test", filepath.Join(dir, "agent"))
	write(t, filepath.Join(dir, "CHANGELOG.md"), "## 1.2.3\n\n- Images.\n")

	dist := filepath.Join(dir, "dist")
	said := p.run("env", "VERSION=v1.2.3", "CHANGELOG="+filepath.Join(dir, "CHANGELOG.md"), "PLATFORMS=linux/amd64 linux/arm64",
		"RELEASE_BINARIES="+filepath.Join(dir, "programs"), "NFPM=true", "GOVULNCHECK=true", "PATH="+goPath(t)+":/usr/local/bin:/usr/bin:/bin",
		"HOME="+goEnv(t, "HOME"), "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"),
		"IMAGE_ARGS=--build-arg BASE="+baseImage+" --build-arg GO="+baseImage+" --build-arg NODE=claudeops-agent:test", "script/release", dist)
	if !strings.Contains(said, "left out: the image full for linux/arm64") {
		t.Errorf("it does not say that it cannot run programs of the other platform:\n%s", said)
	}

	if strings.Contains(said, "left out: the image slim") {
		t.Errorf("the slim image of the other platform is left out:\n%s", said)
	}
	registry := d.Registry(t)
	p.run("nsenter", "--net="+d.Network(t), "env", "REGISTRY="+registry.Address+"/ops", "PUSH_ARGS=--insecure", "script/publish", dist)
	for name, want := range map[string][]string{"latest": {"amd64"}, "1.2.3": {"amd64"}, "1.2.3-slim": {"amd64", "arm64"}, "latest-slim": {"amd64", "arm64"}} {
		resp, err := d.Pages(t).Get("http://" + registry.Address + "/v2/ops/manifests/" + name)
		must(t, err)
		raw, err := io.ReadAll(resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		var list struct {
			Manifests []struct {
				Platform struct{ Architecture, OS string }
			}
		}
		must(t, json.Unmarshal(raw, &list))
		var got []string
		for _, m := range list.Manifests {
			got = append(got, m.Platform.Architecture)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s is for %v, want %v: %s", name, got, want, raw)
		}
	}

	// The template for TrueNAS runs as it is, but for the folders of that machine.
	write(t, filepath.Join(dir, "compose.yaml"), strings.NewReplacer("/mnt/tank/apps/claudeops", dir, "registry.example.org/claudeops:1.2.3",
		"registry.example.org/claudeops:1.2.3-amd64", "change-me-to-20-characters-or-more", token).Replace(readFile(t, filepath.Join(dist, "claudeops_truenas.yaml"))))
	p.run("mkdir", filepath.Join(dir, "config"))
	p.run("mkdir", "-m", "711", filepath.Join(dir, "state"))
	write(t, filepath.Join(dir, "config/claudeops.yaml"), d.Docker(t, "run", "--rm", "registry.example.org/claudeops:1.2.3-amd64", "init", "-")+"\n")
	nas := &project{t: t, d: d, dir: dir, env: []string{"COMPOSE_PROJECT_NAME=truenas"}}
	t.Cleanup(func() { _, _ = nas.try("docker", "compose", "down", "--timeout", "20") })
	nas.run("docker", "compose", "up", "-d", "--wait")
	answers(t, d, token)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `[ "$1" = HOME ] && echo "$HOME" || go env "$1"`, "sh", name).Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

func goPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	must(t, err)
	return filepath.Dir(path)
}
