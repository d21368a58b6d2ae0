package guard

import (
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestRuleIDs(t *testing.T) {
	g := newGuard(t)
	for command, want := range map[string]string{
		"docker ps '":  "R1",
		"$x -rf /":     "R3",
		"eval ls":      "R3",
		"python3 -c 1": "R4",
		"for i in 1 2; do docker restart web; done":    "R5",
		"launcher docker ps":                           "R6",
		"sudo ls":                                      "R7",
		"./docker ps":                                  "R8",
		"echo x > /etc/x":                              "R9",
		"echo x > /state/x":                            "R10",
		"rm -rf /":                                     "never.rm-root",
		"docker system prune":                          "never.docker-prune",
		"git push -f":                                  "never.force-push",
		"echo x > inventory/ie.yaml":                   "never.inventory",
		"docker compose down -v":                       "never.volumes",
		"rm /volumes/x":                                "never.volumes",
		"cat ~/.ssh/id_rsa":                            "never.secrets",
		"reboot now":                                   "R10",
		"docker rm web":                                "docker.redeploy",
		"sudo ls; docker system prune":                 "never.docker-prune",
		"eval x; echo x > /state/x":                    "R10",
		"git push -f; echo x > inventory/ie.yaml":      "never.force-push",
		"ls $(rm -rf /) && python3 -c 1 && ./docker x": "never.rm-root",
	} {
		if d := g.Check(ops.Tier3, "Bash", bashInput(t, command), testFacts()); d.Allowed() || d.Rule != want {
			t.Errorf("%q: %s by %s, want a deny by %s", command, d.Verdict, d.Rule, want)
		}
	}
}

func TestAReasonSaysWhatIsRefusedFromWhichTierAndWhatToDo(t *testing.T) {
	g := newGuard(t)
	for _, c := range []struct {
		tier    ops.Tier
		command string
		want    []string
	}{
		{ops.Tier1, "docker restart jellyfin", []string{"docker restart", "Tier 1", "Tier 2", "escalate"}},
		{ops.Tier2, "helm rollback web", []string{"helm rollback", "Tier 2", "Tier 3", "escalate"}},
		{ops.Tier1, "echo x > notes.md", []string{"notes.md", "Tier 2"}},
		{ops.Tier3, "docker system prune", []string{"docker system prune", "every tier", "human"}},
		{ops.Tier3, "cd /tmp && git push", []string{"repository", "cd into"}},
		{ops.Tier3, "python3 -c 1", []string{"every tier", "jq"}},
		{ops.Tier3, "echo x > /opt/x", []string{"/opt/x", "cd into a repository"}},
	} {
		d := g.Check(c.tier, "Bash", bashInput(t, c.command), testFacts())
		for _, want := range c.want {
			if !strings.Contains(d.Reason, want) {
				t.Errorf("%q at %s: %q does not speak of %q", c.command, c.tier, d.Reason, want)
			}
		}
		if strings.Count(d.Reason, ". ") > 0 || !strings.HasSuffix(d.Reason, ".") {
			t.Errorf("%q is not one sentence", d.Reason)
		}
	}
}

func TestTheScriptIsThePlainFormOfTheCommand(t *testing.T) {
	g := newGuard(t)
	for command, want := range map[string]string{
		"docker   ps  ;   docker images":  "docker ps\ndocker images\n",
		"echo `docker ps`":                "echo $(docker ps)\n",
		"docker ps # all of them":         "docker ps\n",
		"cat <<'EOF'\n$(rm -rf /)\nEOF\n": "cat <<'EOF'\n$(rm -rf /)\nEOF\n",
		"if true;then docker ps;fi":       "if true; then docker ps; fi\n",
		"echo 'a  b' \"c  d\"   e\\ f":    "echo 'a  b' \"c  d\" e\\ f\n",
		"docker ps \\\n  -a":              "docker ps \\\n\t-a\n",
	} {
		if d := g.Check(ops.Tier1, "Bash", bashInput(t, command), testFacts()); d.Script != want {
			t.Errorf("%q: script %q, want %q (%s)", command, d.Script, want, d.Reason)
		}
	}
}

func TestHugeAndDeepInputIsRefusedQuickly(t *testing.T) {
	g := newGuard(t)
	for name, command := range map[string]string{
		"long":         "echo " + strings.Repeat("x", 70_000),
		"parentheses":  strings.Repeat("(", 30_000) + "docker ps" + strings.Repeat(")", 30_000),
		"open":         strings.Repeat("$(", 30_000),
		"braces":       strings.Repeat("{ ", 20_000) + "docker ps;" + strings.Repeat(" }", 20_000),
		"if":           strings.Repeat("if ", 20_000) + "true",
		"substitution": strings.Repeat("echo $(", 200) + "ls" + strings.Repeat(")", 200),
		"quotes":       strings.Repeat(`"$(echo `, 200) + "ls" + strings.Repeat(`)"`, 200),
		"backquotes":   "echo " + strings.Repeat("`", 30_001),
		"commands":     strings.Repeat("docker ps;", 6_000),
		"loops":        loops(30),
		"stars":        "cat " + strings.Repeat("*/", 30_000),
		"one star":     "cat " + strings.Repeat("*a", 30_000),
		"functions":    "a() { :; }; " + doubling(40),
		"brackets":     "echo " + strings.Repeat("[", 60_000),
		"heredocs":     strings.Repeat("cat <<E ", 5_000),
	} {
		if d := g.Check(ops.Tier3, "Bash", bashInput(t, command), testFacts()); d.Allowed() && name != "brackets" {
			t.Errorf("%s: allowed", name)
		}
	}
}

// loops are n loops inside each other.
func loops(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("for v" + strings.Repeat("x", i) + " in 1 2 3 4 5 6 7 8; do y=1; ")
	}
	return b.String() + strings.Repeat("done; ", n)
}

// doubling are functions that each call the one before twice.
func doubling(n int) string {
	var b strings.Builder
	prev := "a"
	for i := range n {
		name := "f" + strings.Repeat("x", i)
		b.WriteString(name + "() { " + prev + "; " + prev + "; }; ")
		prev = name
	}
	return b.String() + prev
}

// Who wants to make a container again by a command is told who does it, or how the operator lets somebody do it.
func TestARedeploymentIsAnAction(t *testing.T) {
	facts := testFacts()
	facts.Services = append(facts.Services, ops.Service{Name: "shop", Aliases: []string{"shop_web"}, Actions: []ops.ActionSpec{{Name: "redeploy", Service: "shop", Kind: ops.ActionRedeploy}}})
	for command, want := range map[string]string{
		"docker rm -f shop_web":                  "action redeploy of shop",
		"docker run -d --name jellyfin jellyfin": "jellyfin has no action redeploy",
		"docker pull shop":                       "action redeploy of shop",
	} {
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			if d := newGuard(t).Check(tier, "Bash", bashInput(t, command), facts); d.Allowed() || !strings.Contains(d.Reason, want) {
				t.Errorf("%q at %s: %s", command, tier, d.Reason)
			}
		}
	}
}
