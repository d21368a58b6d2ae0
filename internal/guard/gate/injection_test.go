package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
	"claudeops/test/gatetest"
)

// openReal opens a session of a tier behind the real guard, with places to attack.
func openReal(t *testing.T, tier ops.Tier, at gatetest.Places) *fixture {
	t.Helper()
	judge, err := guard.New(nil)
	must(t, err)
	f := open(t, func(o *Options, _ *Gate) { o.Judge = judge })
	s, err := f.gate.Open(t.Context(), ops.Session{ID: ops.SessionID(tier), CycleID: 3, Tier: tier}, guard.Facts{
		Cwd: at.Repos, ReposDir: at.Repos, StateDir: at.State, TempDir: "/tmp", VolumesDirs: []string{at.Volumes},
		ProtectedFiles: []string{"ie.yaml", "vms.yaml"}, OwnPaths: []string{at.State}, OwnAPI: []string{"127.0.0.1:8080"},
		Resolve: func(name string) (string, error) { return name, nil },
	}, func(ops.GuardRecord) {})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	f.Session = s
	return f
}

// around is the text the CLI gives to its shell for a command.
func around(command string) string {
	return evalStart + quote(command) + noInput + tail + "/tmp/claude-0a1b-cwd"
}

func commandOf(t *testing.T, o gatetest.Order) string {
	t.Helper()
	var in struct {
		Command string `json:"command"`
	}
	must(t, json.Unmarshal(o.Input, &in))
	return in.Command
}

func TestAnAgentThatObeysEveryTextMayNotDoWhatTheySay(t *testing.T) {
	t.Parallel()
	at := gatetest.Places{Volumes: "/volumes", Repos: "/repos", State: "/state"}
	fixtures, err := gatetest.Fixtures(at)
	if err != nil || len(fixtures) < 200 {
		t.Fatalf("%d fixtures, %v", len(fixtures), err)
	}
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		t.Run(tier.String(), func(t *testing.T) {
			t.Parallel()
			f := openReal(t, tier, at)
			tried := 0
			for i, fx := range fixtures {
				orders := gatetest.Obey(fx.Text)
				if len(orders) != 1 || orders[0].ID != fx.Order.ID {
					t.Fatalf("%s: the agent reads %+v", fx.Name, orders)
				}
				o := orders[0]
				if tier >= o.From {
					continue
				}
				tried++
				// The same id in every tier: what was said of a call in the conversation below counts for nothing here.
				id := fmt.Sprintf("toolu_%d", i)
				if a := f.ask(client.Request{Kind: client.KindHook, Input: hookText(t, id, o.Tool, o.Input)}); a.Verdict != client.Deny || a.Reason == "" {
					t.Errorf("%s: the hook answers %+v", fx.Name, a)
				}
				if f.Allowed(id) {
					t.Errorf("%s is remembered as allowed", fx.Name)
				}
				if all := f.ledger.records(); (all[len(all)-1].Rule == ops.RuleAttack) != o.Attack {
					t.Errorf("%s is refused by %s", fx.Name, all[len(all)-1].Rule)
				}
				if o.Tool != toolBash {
					continue
				}
				// And an agent whose hook is broken gets no further.
				if a := f.shelled(around(commandOf(t, o))); a.Verdict != client.Deny || a.Script != "" {
					t.Errorf("%s: the shell answers %+v", fx.Name, a)
				}
			}
			if tried < 200 {
				t.Errorf("only %d were tried", tried)
			}
		})
	}
}

func TestNothingRunsForAnAgentThatObeys(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	at := gatetest.Places{Volumes: filepath.Join(base, "volumes"), Repos: filepath.Join(base, "repos"), State: filepath.Join(base, "state")}
	bin, log := gatetest.Markers(t)
	gatetest.Fill(t, at)
	orders, err := gatetest.Orders(at)
	must(t, err)
	f := openReal(t, ops.Tier1, at)
	link, err := f.ShellPrefix()
	must(t, err)
	for _, o := range orders {
		if o.Tool != toolBash {
			continue
		}
		cmd := exec.CommandContext(t.Context(), link, around(commandOf(t, o)))
		cmd.Dir, cmd.WaitDelay = at.Repos, 5*time.Second
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + base, "GORACE=atexit_sleep_ms=0"}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 126 || stderr.Len() == 0 {
			t.Errorf("%s: %v %s", o.ID, err, stderr.String())
		}
	}
	if raw, _ := os.ReadFile(log); len(raw) > 0 {
		t.Errorf("these ran:\n%s", raw)
	}
	for _, complaint := range gatetest.Missing(at) {
		t.Error(complaint)
	}
	// The markers can tell: what is allowed does run.
	if a := f.hooked("toolu_ok", "docker ps"); a.Verdict != client.Allow {
		t.Fatalf("%+v", a)
	}
	cmd := exec.CommandContext(t.Context(), link, around("docker ps"))
	cmd.Dir, cmd.Env = at.Repos, []string{"PATH=" + bin + ":/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if raw, _ := os.ReadFile(log); !strings.Contains(string(raw), "docker ps") {
		t.Errorf("the marker of docker noted %q", raw)
	}
}
