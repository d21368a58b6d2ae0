package browsertest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"claudeops/test/loopback"
)

// pictured are the pages of the demo that the documents show.
func pictured() map[string]string { return map[string]string{"story": "/incidents/1", "overview": "/"} }

// shown is what a page shows, without what differs from one demo to the next: numbers, and the order in which things came to pass.
func shown(page string) string {
	_, page, _ = strings.Cut(page, "<main")
	page, _, _ = strings.Cut(page, "</main>")
	page = regexp.MustCompile(`(?s)<svg class="ticks".*?</svg>|<section[^>]*aria-labelledby="activity".*?</section>`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`\b(a|one|an) (second|minute)|just now|\d+ (s|min|seconds|minutes)\b`).ReplaceAllString(page, "0 s")
	page = regexp.MustCompile(`\d+`).ReplaceAllString(page, "0")
	return strings.ReplaceAll(page, " · last 0 s ago", "") // no look has ended yet just after a step of the demo
}

func imprint(page string) string { return fmt.Sprintf("%x\n", sha256.Sum256([]byte(shown(page)))) }

func TestThePicturesShowWhatThePagesShow(t *testing.T) {
	t.Parallel()
	base, signIn := startDemo(t, "CLAUDEOPS_DEMO_PACE=0")
	jar, err := cookiejar.New(nil)
	must(t, err)
	client := &http.Client{Jar: jar}
	get := func(path string) string {
		resp, err := client.Get(base + path)
		must(t, err)
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return string(text)
	}
	get(signIn)
	for name, path := range pictured() {
		want, err := os.ReadFile(filepath.Join("..", "..", "docs", "img", name+".sha256"))
		must(t, err)
		// The incident is over before the last page that tells it has settled.
		for end := time.Now().Add(3 * deadline); ; <-time.After(100 * time.Millisecond) {
			page := get(path)
			if imprint(page) == string(want) {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%s has changed: make screenshots takes docs/img/%s-*.png again; it shows now\n%s", path, name, shown(page))
				break
			}
		}
	}
}

func TestEveryPictureIsShown(t *testing.T) {
	t.Parallel()
	var text string
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/howto/*.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		must(t, err)
		for _, f := range files {
			raw, err := os.ReadFile(f)
			must(t, err)
			text += string(raw)
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "img", "*.png"))
	if err != nil || len(files) == 0 {
		t.Fatal("no pictures", err)
	}
	for _, f := range files {
		if name := filepath.Base(f); !strings.Contains(text, "img/"+name) {
			t.Errorf("no document shows %s", name)
		}
	}
}

// startDemo starts the demo on a free port and returns where its pages are, and the path that signs in.
func startDemo(t *testing.T, env ...string) (base, signIn string) {
	t.Helper()
	c := exec.Command(buildProgram(t), "demo", "--listen", loopback.FreeAddress(t))
	c.Env = append(os.Environ(), env...) //nolint:forbidigo // as a person starts it
	said := &loopback.Output{}
	c.Stdout, c.Stderr = said, said
	must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait() // it is ended by the signal
	})
	address := regexp.MustCompile(`Open (http://[^/]+)(/\S+) to watch`)
	for end := time.Now().Add(2 * deadline); ; <-time.After(20 * time.Millisecond) {
		if found := address.FindStringSubmatch(said.String()); found != nil {
			return found[1], found[2]
		}
		if time.Now().After(end) {
			t.Fatalf("the demo does not start\n%s", said)
		}
	}
}
