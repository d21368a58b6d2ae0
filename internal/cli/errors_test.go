package cli

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A message says everything once, and in ordinary words.
func TestErrorsDoNotRepeatThemselves(t *testing.T) {
	e := newElsewhereAt(t, time.Now().UTC().Truncate(time.Second))
	e.fill()
	server := e.environ
	local := []string{"HOME=" + t.TempDir(), "CLAUDEOPS_STATE_DIR=" + filepath.Dir(e.Path)}
	goWords := regexp.MustCompile(`strconv|ParseInt|invalid syntax|json:|sql:|EOF|<nil>|nil pointer|context deadline`)
	for _, args := range []string{
		"sessions show 99", "sessions logs 99", "sessions stop 99", "sessions stop 1", "cycles show 99", "cycles show --session 99",
		"cycles cancel 99", "cycles cancel 1", "incidents show 99", "incidents ack 99", "incidents resolve 99", "incidents snooze 99 --for 1h",
		"approvals show 99", "approvals approve 99", "memory rm 99", "silences rm 99", "services show jelyfin",
		"costs --environment defalt", "sessions list --limit abc", "sessions show abc", "sessions list --tier x",
	} {
		for _, from := range [][]string{server, local} {
			e.environ = from
			code, _, errs := e.run(strings.Fields(args)...)
			if code == exitOK || code == exitError {
				t.Errorf("%s: exit %d, %s", args, code, errs)
			}
			if found := goWords.FindString(errs); found != "" {
				t.Errorf("%s: %q in %s", args, found, errs)
			}
			seen := map[string]bool{}
			for _, part := range strings.Split(strings.TrimSpace(errs), ": ") {
				if seen[part] {
					t.Errorf("%s says %q twice: %s", args, part, errs)
				}
				seen[part] = true
			}
		}
	}
	e.environ = server
	if code, _, errs := e.run("silences", "add", "jellyfin", "--for", "1h"); code != exitOK { // a script need not say why
		t.Errorf("a silence without a reason: exit %d, %s", code, errs)
	}
	if out := e.must("silences", "list", "-o", "json"); !strings.Contains(out, `"no reason given"`) {
		t.Errorf("the reason is %s", out)
	}
	if _, _, errs := e.run("silences", "add", "jelyfin", "--for", "1h", "--reason", "x"); !strings.Contains(errs, `no service is called "jelyfin" (did you mean "jellyfin"?)`) {
		t.Errorf("a silence that mutes nothing: %s", errs)
	}
	if _, _, errs := e.run("silences", "add", "jellyfin", "--for", "1h", "--reason", "x"); strings.Contains(errs, "note:") {
		t.Errorf("a silence of a service: %s", errs)
	}
	if _, _, errs := e.run("services", "show", "jelyfin"); !strings.Contains(errs, `did you mean "jellyfin"?`) {
		t.Errorf("no proposal: %s", errs)
	}
}

func TestAnEmptyListSaysWhatItLeavesOut(t *testing.T) {
	e := newElsewhere(t)
	e.must("silences", "add", "jellyfin", "--for", "1h")
	e.must("silences", "rm", "1")
	if _, _, errs := e.run("silences", "list"); errs != "No silences found; 1 other, --all shows it.\n" {
		t.Errorf("%q", errs)
	}
}
