package realcli_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/ops"
	"claudeops/test/messagesapi"
	"claudeops/test/realcli"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// plants writes what a program started by a later session would obey.
const plants = `mkdir -p ~/.config/git "$CLAUDE_CONFIG_DIR/plugins" ~/.cache
printf '[alias]\n\tst = !echo PLANTED\n' > ~/.gitconfig
cp ~/.gitconfig ~/.config/git/config
echo 'echo PLANTED' | tee ~/.bashrc > ~/.profile
echo '{"env":{"PLANTED":"1"}}' > "$CLAUDE_CONFIG_DIR/settings.json"
echo PLANTED | tee "$CLAUDE_CONFIG_DIR/CLAUDE.md" "$CLAUDE_CONFIG_DIR/plugins/x" CLAUDE.md > ~/.cache/x
mkdir closed; chmod 0 closed`

// looks prints everything that was planted and is still there.
const looks = `cat ~/.gitconfig ~/.config/git/config ~/.bashrc ~/.profile "$CLAUDE_CONFIG_DIR"/settings.json "$CLAUDE_CONFIG_DIR"/CLAUDE.md \
"$CLAUDE_CONFIG_DIR"/plugins/x ~/.cache/x CLAUDE.md 2>/dev/null; git st 2>/dev/null; env | grep PLANTED; ls -A; echo looked`

// continuing makes a session go on with the conversation of another.
func continuing(from ops.RunResult, id ops.SessionID, tier ops.Tier) func(*ops.SessionSpec) {
	return func(s *ops.SessionSpec) {
		s.Resume, s.Conversation, s.SpentUSD = from.CLISessionID, from.Conversation, from.ReportedUSD
		s.Session.ID, s.Session.Tier = id, tier
	}
}

// TestThreeTiersShareAConversationAndNothingElse holds that a session cannot plant anything for the next one, although each
// continues the conversation of the one before.
func TestThreeTiersShareAConversationAndNothingElse(t *testing.T) {
	t.Parallel()
	r := newRunner(t, func(req messagesapi.Request) messagesapi.Answer {
		n := len(req.Prompts())
		command := looks
		if n == 1 {
			command = plants
		}
		call := messagesapi.Bash("toolu_"+strconv.Itoa(n), command)
		return messagesapi.Turns(call, messagesapi.Text("end of "+req.Prompt()))(req)
	})
	succeeded := func(res ops.RunResult) ops.RunResult {
		t.Helper()
		if !res.Success() {
			t.Fatalf("got %+v\n%s", res, strings.Join(r.lines, "\n"))
		}
		return res
	}
	one := succeeded(r.run("one", nil))
	two := succeeded(r.run("two", continuing(one, 2, ops.Tier2)))
	nudged := succeeded(r.run("again", continuing(two, 3, ops.Tier2)))
	succeeded(r.run("three", continuing(two, 4, ops.Tier3)))
	succeeded(r.run("four", continuing(nudged, 5, ops.Tier3)))

	all := r.api.Requests()
	for _, want := range [][]string{{"one", "two"}, {"one", "two", "again"}, {"one", "two", "three"}, {"one", "two", "again", "four"}} {
		if !slices.ContainsFunc(all, func(req messagesapi.Request) bool { return slices.Equal(req.Prompts(), want) }) {
			t.Errorf("no session was told %q", want)
		}
	}
	for _, req := range all {
		for _, id := range []string{"toolu_2", "toolu_3", "toolu_4"} {
			if seen, ok := req.Result(id); ok && seen.Text != "looked" {
				t.Errorf("%s found %q", id, seen.Text)
			}
		}
	}
	if last := all[len(all)-1]; strings.Contains(string(last.Body), "PLANTED=1") {
		t.Error("the settings of the first session reached the last")
	}
	left, err := os.ReadDir(r.state)
	if err != nil || slices.ContainsFunc(left, func(e fs.DirEntry) bool { return e.Name() == "agent" }) {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// TestALongOutputCanStillBeRead holds that the file in which the program keeps a long output is there in the next tier.
func TestALongOutputCanStillBeRead(t *testing.T) {
	t.Parallel()
	var path string
	r := newRunner(t, func(req messagesapi.Request) messagesapi.Answer {
		if len(req.Prompts()) == 1 {
			return messagesapi.Turns(messagesapi.Bash("toolu_1", "seq 1 40000"), messagesapi.Text("long"))(req)
		}
		seen, _ := req.Result("toolu_1")
		for word := range strings.FieldsSeq(seen.Text) {
			if strings.Contains(word, "/tool-results/") {
				path = word
			}
		}
		return messagesapi.Turns(messagesapi.Bash("toolu_2", "tail -n 1 '"+path+"'"), messagesapi.Text("done"))(req)
	})
	one := r.run("one", nil)
	two := r.run("two", continuing(one, 2, ops.Tier2))
	three := r.run("three", continuing(two, 3, ops.Tier3))
	if !one.Success() || !two.Success() || !three.Success() {
		t.Fatalf("got %+v\n%+v\n%+v", one, two, three)
	}
	all := r.api.Requests()
	if seen, ok := all[len(all)-1].Result("toolu_2"); path == "" || !ok || seen.Text != "40000" {
		t.Errorf("%q ends with %q", path, seen.Text)
	}
}

// TestTheProgramNeverHoldsTheKey holds that neither the program nor its commands can read the key of the API, and that what
// they hold instead is worth nothing after the session.
func TestTheProgramNeverHoldsTheKey(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"ANTHROPIC_API_KEY": "X-Api-Key", "ANTHROPIC_AUTH_TOKEN": "Authorization", "CLAUDE_CODE_OAUTH_TOKEN": "Authorization",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const key, secret = "sk-ant-the-real-key-of-a-test", "secret-of-the-gateway"
			const look = `cat /proc/$PPID/environ /proc/self/environ | tr '\0' '\n' | sort -u > env.txt
for p in /proc/[0-9]*; do tr '\0' '\n' < $p/environ | grep -q "^CLAUDEOPS_SESSION_KEY=$CLAUDEOPS_SESSION_KEY" && cat $p/environ; done 2>/dev/null | tr '\0' '\n' >> env.txt
grep -rlF -e sk-ant-the-real -e secret-of-the ~ "$CLAUDE_CONFIG_DIR" "$CLAUDEOPS_STATE_DIR" env.txt; cat env.txt`
			r := newRunner(t, messagesapi.Turns(messagesapi.Bash("toolu_1", look), messagesapi.Text("done")))
			r.env = slices.DeleteFunc(r.env, func(v string) bool { return strings.HasPrefix(v, "ANTHROPIC_API_KEY=") })
			r.env = append(r.env, name+"="+key, "ANTHROPIC_CUSTOM_HEADERS=X-Gateway: "+secret, "HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=example.com")
			r.runner = agent.NewRunner(claude.New(claude.Options{Bin: realcli.Path(t)}), agent.Options{})
			res := r.run("look around", nil)
			if !res.Success() {
				t.Fatalf("got %+v\n%s", res, strings.Join(r.lines, "\n"))
			}
			all := r.api.Requests()
			last := all[len(all)-1]
			if got := strings.TrimPrefix(last.Header.Get(header), "Bearer "); got != key || last.Header.Get("X-Gateway") != secret {
				t.Errorf("the API got %q", got)
			}
			seen, _ := last.Result("toolu_1")
			if !strings.Contains(seen.Text, name+"=claudeops-session-") {
				t.Errorf("the command did not see the token:\n%s", seen.Text)
			}
			for _, text := range []string{seen.Text, string(last.Body), strings.Join(r.lines, "\n")} {
				if strings.Contains(text, key) || strings.Contains(text, secret) {
					t.Error("the key can be read")
				}
			}
			err := filepath.WalkDir(r.state, func(path string, e fs.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				data, err := os.ReadFile(path)
				if strings.Contains(string(data), key) {
					t.Errorf("the key is in %s", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			worthless(t, seen.Text, name)
		})
	}
}

// worthless uses what a command found in the environment after the session.
func worthless(t *testing.T, environment, name string) {
	t.Helper()
	vars := map[string]string{}
	for line := range strings.Lines(environment) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			vars[k] = v
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, vars["ANTHROPIC_BASE_URL"]+"/v1/messages", strings.NewReader("{}"))
	must(t, err)
	req.Header.Set("X-Api-Key", vars[name])
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_ = resp.Body.Close()
		t.Errorf("the proxy still answers: %s", resp.Status)
	}
}
