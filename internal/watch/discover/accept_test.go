package discover_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/watch/discover"
)

// accepting accepts what is found in a folder, by way of a file as it is kept.
func accepting(t *testing.T, r discover.Result) []discover.Accepted {
	t.Helper()
	var all []discover.Accepted
	for _, f := range r.New() {
		all = append(all, f.Accept())
	}
	text, err := json.Marshal(all)
	must(t, err)
	all = nil
	must(t, json.Unmarshal(text, &all))
	return all
}

func standings(found []discover.Found) []string {
	var out []string
	for _, f := range found {
		out = append(out, fmt.Sprintf("%s %s %d %v", f.Standing, f.Service.Name, len(f.Probes), f.Service.DependsOn))
	}
	return out
}

func again(t *testing.T, dir string, accepted []discover.Accepted, known ...ops.Service) discover.Result {
	t.Helper()
	o := options(known...)
	o.Asked, o.Accepted = true, accepted
	r, err := discover.Scan(t.Context(), dir, o)
	must(t, err)
	return r
}

func TestWhatWasAcceptedAndStaysTheSameIsTrusted(t *testing.T) {
	first := scan(t, "testdata/repos")
	second := again(t, "testdata/repos", accepting(t, first))
	if got, want := lines(second), lines(first); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, f := range second.Found {
		if f.Standing != discover.Trusted {
			t.Errorf("%s is %q", f.Service.Name, f.Standing)
		}
	}
	if n := len(second.Unaccepted()); n != 0 {
		t.Errorf("%d are not accepted", n)
	}
}

func TestAChangedRepositoryLosesTrust(t *testing.T) {
	const manifest = "---\nservices:\n  - {name: web, depends_on: [db], probes: ['http://web.lan/']}\n  - {name: db, aliases: [pg], probes: ['db.lan:5432']}\n---\n"
	for _, tc := range []struct {
		name    string
		files   map[string]string // what is written over
		gone    string
		found   []string
		watched string
	}{
		{
			"only moved",
			map[string]string{"repo/CLAUDE-OPS.md": "", "repo/.claude-ops/services.yaml": "services:\n\n  - {name: web, depends_on: [db], probes: ['http://web.lan/']}\n  - {name: db, aliases: [pg], probes: ['db.lan:5432']}\n"},
			"",
			[]string{"trusted web 1 [db]", "trusted db 1 []"},
			"http://web.lan/ db.lan:5432",
		},
		{
			"another address",
			map[string]string{"repo/CLAUDE-OPS.md": strings.Replace(manifest, "web.lan", "evil.example", 1)},
			"",
			[]string{"changed web 1 [db]", "trusted db 1 []"},
			"http://web.lan/ db.lan:5432",
		},
		{
			"a probe less",
			map[string]string{"repo/CLAUDE-OPS.md": strings.Replace(manifest, ", probes: ['http://web.lan/']", "", 1)},
			"",
			[]string{"changed web 1 [db]", "trusted db 1 []"},
			"http://web.lan/ db.lan:5432",
		},
		{
			"a dependency that would mute it",
			map[string]string{"repo/CLAUDE-OPS.md": strings.Replace(manifest, "{name: db,", "{name: db, depends_on: [other],", 1), "repo/.claude-ops/services.yaml": "- {name: other, probes: ['nowhere.lan:1']}\n"},
			"",
			[]string{"trusted web 1 [db]", "changed db 1 []", "new other 1 []"},
			"http://web.lan/ db.lan:5432",
		},
		{
			"an alias",
			map[string]string{"repo/CLAUDE-OPS.md": strings.Replace(manifest, "[pg]", "[pg, web2]", 1)},
			"",
			[]string{"trusted web 1 [db]", "changed db 1 []"},
			"http://web.lan/ db.lan:5432",
		},
		{"nothing left", nil, "repo/CLAUDE-OPS.md", []string{"gone web 1 [db]", "gone db 1 []"}, "http://web.lan/ db.lan:5432"},
		{"no repository left", nil, "repo", []string{"gone web 1 [db]", "gone db 1 []"}, "http://web.lan/ db.lan:5432"},
		{
			"a repository that comes first and takes the name",
			map[string]string{"aaa/compose.yaml": "services: {web: {ports: ['1:1']}, x: {depends_on: [web], container_name: pg}}\n"},
			"",
			[]string{"trusted web 1 [db]", "trusted db 1 []", "new x 0 [web]"},
			"http://web.lan/ db.lan:5432",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "repo/CLAUDE-OPS.md", manifest)
			accepted := accepting(t, scan(t, dir))
			for name, text := range tc.files {
				write(t, dir, name, text)
			}
			if tc.gone != "" {
				must(t, os.RemoveAll(filepath.Join(dir, tc.gone)))
			}
			r := again(t, dir, accepted)
			if got := standings(r.Found); !slices.Equal(got, tc.found) {
				t.Errorf("found %q, want %q\n%s", got, tc.found, problems(r))
			}
			var watched []string
			for _, f := range r.Watched() {
				for _, p := range f.Probes {
					watched = append(watched, p.URL+p.Address)
				}
			}
			if got := strings.Join(watched, " "); got != tc.watched {
				t.Errorf("watched is %q", got)
			}
			// Once the present state is accepted, it is what is trusted.
			var now []discover.Accepted
			for _, f := range r.New() {
				if f.Standing != discover.Gone {
					now = append(now, f.Accept())
				}
			}
			for _, f := range again(t, dir, now).Found {
				if f.Standing != discover.Trusted {
					t.Errorf("after it was accepted %s is %q", f.Service.Name, f.Standing)
				}
			}
		})
	}
}

func TestAConfiguredServiceWinsOverAnAcceptedOne(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "repo/.claude-ops/services.yaml", "services: [{name: web, depends_on: [db], probes: ['http://web.lan/']}, {name: db}]\n")
	accepted := accepting(t, scan(t, dir))
	r := again(t, dir, accepted, ops.Service{Name: "database", Aliases: []string{"db"}})
	if got := standings(r.Watched()); !slices.Equal(got, []string{"trusted web 1 [database]"}) {
		t.Errorf("watched are %q", got)
	}
	if got := standings(again(t, dir, nil).Watched()); len(got) != 0 {
		t.Errorf("nothing was accepted, and watched are %q", got)
	}
}
