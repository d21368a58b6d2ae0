package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/test/messagesapi"
	"claudeops/test/responsesapi"
)

// TestAProgramIsAContender runs the example of README.md in real worlds, beside nothing else of ours: it repairs what the expert repairs, and
// is not taken in by the liar.
func TestAProgramIsAContender(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces and a Docker daemon need root")
	}
	b, err := newBench(t.Context(), "", "")
	succeeds(t, err)
	const path = "./example/contender"
	succeeds(t, b.take(path))
	jobs := b.jobs(options{faults: "web-crash", models: "expert,liar", contenders: path, repeat: 1})
	if len(jobs) != 2 {
		t.Fatalf("%d jobs: %+v", len(jobs), jobs)
	}
	for i := range jobs {
		jobs[i].Brief = true
	}
	succeeds(t, b.build(t.Context(), jobs))
	results, err := b.runAll(t.Context(), jobs, options{slots: 2})
	succeeds(t, err)
	for _, r := range results {
		want := endResolved
		if r.Model == "liar" {
			want = endHuman
		}
		// Claude Code without walls may leave a file of its own in /tmp, which is not what is tried here.
		if len(r.Forbidden) > 0 || r.False || r.End != want || r.Human != r.Needed || r.Contender != "contender" {
			t.Errorf("%s\n%+v", r.line(), r)
		}
	}
	if err := b.take("./elsewhere/claudeops"); err == nil {
		t.Error("a program takes the name of another contender")
	}
}

// TestARealModelStandsBehindTheSameRig has a scripted API as the real one, outside of the world: requests reach it with the operator's key,
// which the world does not see.
func TestARealModelStandsBehindTheSameRig(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces and a Docker daemon need root")
	}
	b, err := newBench(t.Context(), "", "")
	succeeds(t, err)
	const key = "sk-of-the-operator"
	t.Setenv(upstreamKey, key)
	expert := newSpeaker(faultNamed(t, b.faults, "web-crash"), named(t, b.models, "expert"))
	var strangers atomic.Int64
	api := messagesapi.New(t, func(req messagesapi.Request) messagesapi.Answer {
		if req.Header.Get("X-Api-Key") != key || strings.Contains(string(req.Body), key) {
			strangers.Add(1)
		}
		return expert.claude(req)
	})
	stop, err := b.outside(t.Context(), api.URL())
	succeeds(t, err)
	b.models = append(b.models, &Model{Name: realName})
	jobs := b.jobs(options{only: "web-crash/" + realName + "/" + plainName, repeat: 1})
	succeeds(t, b.build(t.Context(), jobs))
	jobs[0].Brief = true
	r := b.runOne(t.Context(), jobs[0], func() {})
	if err := stop(); err != nil {
		t.Error(err)
	}
	if !r.good() || len(r.Transcript) < 5 || strangers.Load() > 0 {
		t.Errorf("%s, %d requests without the key\n%+v", r.line(), strangers.Load(), r)
	}
}

func TestTheProtocolOfPrograms(t *testing.T) {
	faults, _ := everything(t)
	for name, c := range map[string]struct{ script, want string }{
		"claims":         {`read q; echo '{}'; read q; echo '{}'; read q; echo '{"claim": {"end": "resolved", "human_asked": true}}'`, ""},
		"says why not":   {`read q; echo '{"error": "no room"}'; read q; echo '{"claim": {"end": "none"}}'`, "cannot start: no room"},
		"ends early":     {`echo died >&2`, "ended instead of an answer to start: died"},
		"talks nonsense": {`read q; echo hello; read q; echo '{"claim": {"end": "none"}}'`, "read the answer of"},
		"another end":    {`read q; echo '{}'; read q; echo '{}'; read q; echo '{"claim": {"end": "great"}}'`, `claims the end "great"`},
		"is asked":       {`read q; case $q in *'"expect_body":"welcome"'*'"agent":"claude"'*) echo '{}';; *) echo '{"error":"x"}';; esac; read q; case $q in *'"broken":"20'*'"watch_seconds":8'*) echo '{}';; esac; read q; echo '{"claim": {"end": "healthy"}}'`, ""},
		"is told little": {`read q; case $q in *repair*|*canar*|*crashed*) exit;; esac; echo '{}'; read q; echo '{}'; read q; echo '{"claim": {"end": "none"}}'`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+c.script+"\n"), 0o700); err != nil { //nolint:gosec // it is executed
				t.Fatal(err)
			}
			p := &pair{fault: faultNamed(t, faults, "web-crash"), people: openSink(), broken: time.Now()}
			p.claude, p.codex = messagesapi.Open(nil), responsesapi.Open(nil)
			defer p.people.server.Close()
			defer p.claude.Close()
			defer p.codex.Close()
			contender := &program{path: path}
			err := contender.Start(t.Context(), p)
			if err == nil {
				err = contender.Wait(t.Context(), p)
			}
			claim, stopErr := contender.Stop(p)
			if err == nil {
				err = stopErr
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if claim.Human {
				t.Error("a call that did not arrive counts")
			}
		})
	}
	t.Run("is too slow", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, []byte("#!/usr/bin/env bash\nread q; echo '{}'; read q; read q\n"), 0o700); err != nil { //nolint:gosec // it is executed
			t.Fatal(err)
		}
		p := &pair{fault: faultNamed(t, faults, "web-crash"), people: openSink()}
		p.claude, p.codex = messagesapi.Open(nil), responsesapi.Open(nil)
		defer p.people.server.Close()
		defer p.claude.Close()
		defer p.codex.Close()
		contender := &program{path: path}
		succeeds(t, contender.Start(t.Context(), p))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := contender.Wait(over, p); err != nil {
			t.Error(err)
		}
		if claim, err := contender.Stop(p); err != nil || claim.End != endNone {
			t.Errorf("%+v, %v", claim, err)
		}
	})
}

func faultNamed(t *testing.T, faults []*Fault, name string) *Fault {
	t.Helper()
	for _, f := range faults {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no fault %s", name)
	return nil
}
