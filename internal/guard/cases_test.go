package guard

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// testFacts is the installation that testdata/cases.txt speaks of.
func testFacts() Facts {
	return Facts{
		Cwd: "/repos/infra", ReposDir: "/repos", StateDir: "/state", TempDir: "/tmp",
		InventoryHosts: []string{"ie01", "ie02"}, Engine: "/run/user/1000/docker.sock", ProtectedFiles: []string{"ie.yaml", "vms.yaml"}, VolumesDirs: []string{"/volumes"},
		OwnAPI: []string{"127.0.0.1:8080", "localhost:8080"},
		Services: []ops.Service{
			{Name: "jellyfin", Aliases: []string{"jf", "media_jellyfin"}}, {Name: "sonarr"}, {Name: "postgres"}, {Name: "web"}, {Name: "db"},
		},
	}
}

type ownCase struct {
	line    int
	class   string
	want    string // without walls
	walled  string // behind walls
	command string
}

func readCases(t testing.TB) []ownCase {
	t.Helper()
	data, err := os.ReadFile("testdata/cases.txt")
	must(t, err)
	var cases []ownCase
	class := ""
	for n, line := range strings.Split(string(data), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "//"):
			continue
		case strings.HasPrefix(line, "# "):
			class = line[2:]
			continue
		}
		want, command, ok := strings.Cut(line, " ")
		want, walled, differs := strings.Cut(want, "/")
		if !differs {
			walled = want
		}
		if !ok || len(want) != 3 || len(walled) != 3 {
			t.Fatalf("cases.txt:%d: %q is not a case", n+1, line)
		}
		if strings.HasPrefix(command, `"`) && strings.HasSuffix(command, `"`) {
			if err := json.Unmarshal([]byte(command), &command); err != nil {
				t.Fatalf("cases.txt:%d: %v", n+1, err)
			}
		}
		cases = append(cases, ownCase{n + 1, class, want, walled, command})
	}
	return cases
}

func TestOwnCasesAreJudgedAsTheySay(t *testing.T) {
	g, facts := newGuard(t), testFacts()
	cases := readCases(t)
	if len(cases) < 200 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		c.judged(t, g, facts, c.want)
		facts := facts
		facts.Walled = true
		c.judged(t, g, facts, c.walled)
	}
}

// judged asks about one case at every tier.
func (c ownCase) judged(t *testing.T, g *Guard, facts Facts, want string) {
	t.Helper()
	got, reason := "", ""
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		d := g.Check(tier, "Bash", bashInput(t, c.command), facts)
		got += string(d.Verdict)[:1]
		if d.Rule == "" || d.Reason == "" || strings.Contains(d.Reason, "\n") {
			t.Errorf("cases.txt:%d: rule %q, reason %q: want one sentence and its rule", c.line, d.Rule, d.Reason)
		}
		if d.Allowed() == (d.Script == "") {
			t.Errorf("cases.txt:%d: %s with script %q", c.line, d.Verdict, d.Script)
		}
		if d.Verdict == Deny {
			reason = d.Rule + " " + d.Reason
		}
	}
	if got != want {
		t.Errorf("cases.txt:%d (%s): walls %t: %s, want %s: %q\n\t%s", c.line, c.class, facts.Walled, got, want, c.command, reason)
	}
}
