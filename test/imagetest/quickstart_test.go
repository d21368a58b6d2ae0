package imagetest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"claudeops/test/readme"
)

// The commands of the README are run in a folder that looks like a checkout. The only difference: what a build would download is named by
// build arguments.
func TestQuickStart_Container(t *testing.T) {
	d := images(t)
	bin := t.TempDir()
	script := "#!/bin/sh\nif [ \"$1\" = build ]; then shift; exec /usr/bin/env PATH=\"$REAL_PATH\" docker build " +
		strings.Join(buildArguments(), " ") + " \"$@\"; fi\nexec /usr/bin/env PATH=\"$REAL_PATH\" docker \"$@\"\n"
	program(t, filepath.Join(bin, "docker"), script)
	p := &project{t: t, d: d, dir: place}
	path := "/usr/local/bin:/usr/bin:/bin"
	p.env = []string{"PATH=" + bin + ":" + path, "REAL_PATH=" + path, "COMPOSE_PROJECT_NAME=quickstart"}
	t.Cleanup(func() { _, _ = p.try("docker", "compose", "down", "--volumes") })
	out := p.run("bash", "-euo", "pipefail", "-c", readme.QuickStart(t, root, "container"))
	link := regexp.MustCompile(`http://127\.0\.0\.1:8080/login\?code=\w+`).FindString(out)
	if link == "" {
		t.Fatalf("it prints no link that signs in:\n%s", out)
	}
	if code, body := get(t, d, link, ""); code >= 400 {
		t.Errorf("the link answers %d: %.300s", code, body)
	}
	env := readFile(t, filepath.Join(place, ".env"))
	answers(t, d, strings.TrimSpace(strings.TrimPrefix(env, "CLAUDEOPS_API_TOKEN=")))
	if !slices.Contains(strings.Split(readFile(t, filepath.Join(place, "claudeops.yaml")), "\n"), "trust: suggest") {
		t.Error("agents may do more than suggest")
	}
}
