package notice

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// filled is a detail in which every field says something.
func filled(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case ops.ApprovalKind:
			f.SetString(string(ops.ApprovalTier))
		case ops.ApprovalStatus:
			f.SetString(string(ops.ApprovalDenied))
		case time.Time:
			f.Set(reflect.ValueOf(time.Unix(60, 0)))
		case *time.Time:
			f.Set(reflect.ValueOf(ops.Ptr(time.Unix(60, 0))))
		case bool:
			f.SetBool(true)
		case []string:
			f.Set(reflect.ValueOf([]string{"db", "cache"}))
		case []ops.Fact:
			f.Set(reflect.ValueOf([]ops.Fact{{Service: "db", Class: "5xx"}}))
		default:
			if f.CanInt() {
				f.SetInt(3)
			} else {
				f.SetString("some")
			}
		}
	}
}

// A sentence that fails in the middle would be the reason alone, so each is made of everything that its verb tells, and of nothing.
func TestEveryVerbHasItsSentence(t *testing.T) {
	t.Parallel()
	for verb := range texts() {
		if verb.Kind() == "" {
			t.Errorf("%s is not a verb", verb)
		}
	}
	for _, verb := range ops.Verbs() {
		e := ops.Event{
			Verb: verb, Actor: ops.Person("ann"), Subject: ops.Subject{Kind: ops.SubjectAction, ID: "77"}, Service: "web", Environment: "home",
			Reason: "because", At: time.Unix(90, 0),
		}
		if _, special := texts()[verb]; special != (verb.Detail() != nil) && !special {
			t.Errorf("%s has facts of its own that no sentence tells", verb)
		}
		if got := Words(e).Words(); got == "" || strings.Contains(got, "%!") || strings.Contains(got, "no value") {
			t.Errorf("%s without a detail says %q", verb, got)
		}
		if verb.Detail() == nil {
			continue
		}
		all := reflect.New(reflect.TypeOf(verb.Detail())).Elem()
		filled(all)
		for _, d := range []ops.Detail{all.Interface().(ops.Detail), verb.Detail()} {
			e.Detail = d
			if got := Words(e).Words(); got == "" || got == "because" || strings.Contains(got, "no value") || strings.Contains(got, "<nil>") {
				t.Errorf("%s with %+v says %q", verb, d, got)
			}
		}
	}
}

// What people are told of an event is made of its facts, each with its noun.
func TestEventsSayWhoDidWhatToWhom(t *testing.T) {
	t.Parallel()
	ann, until := ops.Person("ann"), time.Date(2026, 3, 14, 13, 0, 0, 0, time.UTC)
	about := func(kind ops.SubjectKind) ops.Subject { return ops.Subject{Kind: kind, ID: "7"} }
	for want, e := range map[string]ops.Event{
		"ann asked for restart of web (action 7): it hangs": {
			Verb: ops.VerbActionAsked, Actor: ann, Subject: about(ops.SubjectAction), Service: "web", Reason: "it hangs",
			Detail: ops.ActionDetail{Action: "restart"},
		},
		"the undo of stop of web (action 5) failed: exit 1": {
			Verb: ops.VerbActionUndone, Subject: about(ops.SubjectAction), Service: "web", Reason: "exit 1",
			Detail: ops.ActionDetail{Action: "stop", UndoOf: 5, Status: ops.ActionFailed},
		},
		"restart of web (action 7) is done": {
			Verb: ops.VerbActionEnded, Subject: about(ops.SubjectAction), Service: "web",
			Detail: ops.ActionDetail{Action: "restart", Status: ops.ActionDone},
		},
		"restart of web (action 7) made things worse: db, cache. It is being undone": {
			Verb: ops.VerbActionWorsened, Subject: about(ops.SubjectAction), Service: "web",
			Detail: ops.ActionDetail{Action: "restart", Worse: []string{"db", "cache"}, Undoes: true},
		},
		"step 2 of the plan was not run: it is held back": {
			Verb: ops.VerbActionRefused, Service: "web", Reason: "it is held back", Detail: ops.ActionDetail{Action: "restart", Step: 2},
		},
		"ann denied Tier 2: not now": {
			Verb: ops.VerbApprovalAnswered, Actor: ann, Reason: "not now",
			Detail: ops.ApprovalDetail{Kind: ops.ApprovalTier, Tier: ops.Tier2, Status: ops.ApprovalDenied},
		},
		"ann acknowledged incident 7 (web: HTTP 502)": {
			Verb: ops.VerbIncidentAcknowledged, Actor: ann, Subject: about(ops.SubjectIncident), Service: "web",
			Detail: ops.IncidentDetail{Title: "HTTP 502"},
		},
		"incident 7 (web is slow) stays open: disk is full: cycle 3: web is well": {
			Verb: ops.VerbIncidentEased, Subject: about(ops.SubjectIncident), Service: "web", Reason: "cycle 3: web is well",
			Detail: ops.IncidentDetail{Title: "web is slow", Left: "disk is full"},
		},
		"the schedule asked for update 7 of web": {
			Verb: ops.VerbUpdateAsked, Subject: about(ops.SubjectUpdate), Service: "web", Detail: ops.UpdateDetail{Phase: ops.UpdateAsked},
		},
		"an answer of ann by telegram to approve approval 3 was refused: too late": {
			Verb: ops.VerbReplyTaken, Actor: ann, Reason: "too late",
			Detail: ops.ReplyDetail{Channel: "telegram", Decision: "approve", Kind: "approval", ID: 3},
		},
		"ann silenced service web, alerts by 2 labels until 2026-03-14T13:00:00Z": {
			Verb: ops.VerbSilenceChanged, Actor: ann, Detail: ops.SilenceDetail{Service: "web", Labels: 2, Until: &until},
		},
		"ann from 10.0.0.1: POST /sessions (303 See Other)": {
			Verb: ops.VerbRequestDone, Actor: ann, Detail: ops.RequestDetail{Did: "POST /sessions (303 See Other)", From: "10.0.0.1"},
		},
		"root from command line: claudeops db prune (failed)": {
			Verb: ops.VerbCommandRan, Actor: ops.Person("root"), Detail: ops.RequestDetail{Did: "claudeops db prune", Failed: true},
		},
		"no cycle of home has ended for 30s, although one is due every 15m0s": {
			Verb: ops.VerbDeadmanMissed, Environment: "home", At: until, Detail: ops.DeadmanDetail{Since: until.Add(-30 * time.Second), EverySeconds: 900},
		},
		"3 more services and alerts changed at the same time.": {Verb: ops.VerbWatchChanged, Detail: ops.WatchDetail{More: 3}},
		"web is down: HTTP 502": {
			Verb: ops.VerbProbeFailed, Service: "web", Reason: "HTTP 502", Detail: ops.ProbeDetail{Status: ops.Down},
		},
	} {
		if got := Words(e).Words(); got != want {
			t.Errorf("%s says\n%s\nwant\n%s", e.Verb, got, want)
		}
	}
}

func TestASentenceOfAnEventHidesNothing(t *testing.T) {
	got := Words(ops.Event{Verb: ops.VerbAgentReported, Reason: "the agent says “a\u202eb\u200b\x1bc\x00”"}).Words()
	if got != "the agent says “a b  c ”" {
		t.Errorf("%q", got)
	}
}
