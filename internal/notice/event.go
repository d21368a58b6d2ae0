package notice

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"claudeops/internal/ops"
)

// Words is the sentence of an event. Only what writes its row calls it. One without facts of its own says its reason.
func Words(e ops.Event) ops.Rendered {
	say := sentences().Lookup(string(e.Verb))
	if say == nil || e.Detail == nil && e.Verb.Detail() != nil {
		return ops.Render(e.Reason)
	}
	var text strings.Builder
	err := say.Execute(&text, struct {
		ops.Event
		Who string // did it
		ID  string // of what it is about
	}{e, cmp.Or(e.Actor.Name, ops.Supervisor), e.About().ID})
	if err != nil { // every sentence is tested with the detail of its verb
		return ops.Render(e.Reason)
	}
	return ops.Render(text.String())
}

// Rows are the words of rows for which only the transaction that writes them knows the facts.
type Rows struct{}

// Event is Words.
func (Rows) Event(e ops.Event) ops.Rendered { return Words(e) }

// SessionsStart says that nothing keeps sessions from starting any more.
const SessionsStart = "sessions can start again"

// texts are the sentences of the events that say more than their reason.
func texts() map[ops.Verb]string { //nolint:funlen // a table
	const (
		why       = `{{with .Reason}}: {{.}}{{end}}`
		act       = `{{if .Detail.UndoOf}}the undo of {{end}}{{.Detail.Action}} of {{.Service}}`
		action    = act + ` (action {{or .Detail.UndoOf .ID}})`
		ended     = action + `{{if eq .Detail.Status "done"}} is done{{else}} {{.Detail.Status}}: {{.Reason}}{{end}}`
		incident  = `incident {{.ID}} ({{if not (contains .Detail.Title .Service)}}{{.Service}}: {{end}}{{.Detail.Title}})`
		reflex    = `reflex {{.ID}} ({{.Detail.Does}})`
		request   = `{{.Who}}{{with .Detail.From}} from {{.}}{{end}}: {{.Detail.Did}}`
		update    = `update {{.ID}} of {{.Service}}`
		flood     = `{{.Detail.More}} more services and alerts changed at the same time.`
		takenDown = `session {{.ID}} took down and did not bring up again: {{list .Detail.Down}}`
	)
	return map[ops.Verb]string{
		ops.VerbAccessRefused:     request,
		ops.VerbActionAsked:       `{{.Who}} asked for ` + act + `{{with .Detail.UndoOf}} (action {{.}}){{end}} (action {{.ID}}): {{.Reason}}`,
		ops.VerbActionEnded:       ended,
		ops.VerbActionInterrupted: action + ` was interrupted: {{.Reason}}`,
		ops.VerbActionRefused: `{{if .Detail.Reflex}}the reflex {{.Detail.Action}} of {{.Service}}` +
			`{{else}}step {{.Detail.Step}} of the plan{{end}} was not run: {{.Reason}}`,
		ops.VerbActionUndone: ended,
		ops.VerbActionWorsened: action + ` made things worse{{if .Detail.Undoes}}: {{list .Detail.Worse}}. It is being undone` +
			`{{else}} and has no way back. Worse than before: {{list .Detail.Worse}}{{end}}`,
		ops.VerbAlertChanged:     flood,
		ops.VerbAlertTested:      `a test of the webhook {{.Detail.From}} arrived: alerts of this sender will reach Claude Ops`,
		ops.VerbApprovalAnswered: `{{answered .Who .Detail}}` + why,
		ops.VerbApprovalChanged:  `{{.Who}} changed the answer to approval {{.ID}}: {{lasts .Detail}}` + why,
		ops.VerbCommandRan:       `{{.Who}} from command line: {{.Detail.Did}} ({{if .Detail.Failed}}failed{{else}}done{{end}})`,
		ops.VerbCommitApproved:   `{{.Who}} approved commit {{.Detail.Commit}} of {{.Detail.Repo}} for actions`,
		ops.VerbCooldownCleared:  `{{.Who}} cleared the cooldown of {{.Service}} for {{or .Detail.Action "every action"}}: {{.Reason}}`,
		ops.VerbCycleCancelled:   `cycle cancelled: {{.Reason}}`,
		ops.VerbCycleCaused:      `{{.Reason}} A cycle starts for it.`,
		ops.VerbCycleStarted:     request,
		ops.VerbCycleStopped:     `{{.Who}} cancelled C-{{.ID}}`,
		ops.VerbDeadmanMissed: `no cycle of {{.Environment}} has ended for {{since .Detail.Since .At}}, ` +
			`although one is due every {{seconds .Detail.EverySeconds}}`,
		ops.VerbDeadmanOver:      `cycles of {{.Environment}} end again`,
		ops.VerbGuardBypassed:    takenDown,
		ops.VerbHeartbeatRenewed: `{{.Who}} made a new address for the {{.Detail.Probe}} of {{.Service}}`,
		ops.VerbHostClock:        `the clock of host {{.ID}} {{clock .Detail.AheadMS}}`,
		ops.VerbHostDrained:      `{{.Who}} changed whether host {{.ID}} takes work`,
		ops.VerbHostLost:         `host {{.ID}} gave no sign of life; another one continues its cycle`,
		ops.VerbHostReady:        SessionsStart,

		ops.VerbIncidentAcknowledged: `{{.Who}} acknowledged ` + incident + why,
		ops.VerbIncidentEased:        incident + ` stays open: {{.Detail.Left}}` + why,
		ops.VerbIncidentOver:         incident + ` is over` + why,
		ops.VerbIncidentReopened:     incident + ` is open again` + why,
		ops.VerbIncidentResolved:     `{{.Who}} resolved ` + incident + why,
		ops.VerbIncidentSnoozed:      `{{.Who}} snoozed ` + incident + `{{with .Detail.Until}} until {{at .}}{{end}}` + why,
		ops.VerbIncidentUnverified:   incident + ` is unverified` + why,

		ops.VerbKeyInside:     `Key inside the session: {{.Reason}}.`,
		ops.VerbLocalRefused:  `a process of user {{.Detail.User}} was refused at the {{.Detail.What}}: {{.Reason}}`,
		ops.VerbLoginChanged:  `{{.Who}} {{.Detail.Did}}{{with .Detail.From}} from {{.}}{{end}}`,
		ops.VerbMemoryChanged: `{{.Who}} {{if .Detail.Removed}}removed{{else}}added{{end}} memory {{.ID}}: {{.Detail.Observation}}`,
		ops.VerbNoticeFailed: `notice {{printf "%q" .Detail.Title}} {{if .Detail.Again}}could not be delivered and is tried again` +
			`{{else}}was given up after {{.Detail.Attempts}} attempts{{end}}: {{.Reason}}`,
		ops.VerbNoticeRetried:    `{{.Who}} sends notification {{.ID}} again`,
		ops.VerbNoticeSkipped:    `notices are only recorded, not sent: {{.Reason}}`,
		ops.VerbPathUnseen:       `{{.Detail.What}} is not visible to agents: sandbox.readable does not name it.`,
		ops.VerbPermissionWarned: `the CLI denied {{.Detail.What}}: {{.Detail.Input}}`,
		ops.VerbProbeDisagreed:   `{{.Service}} answers its probes, but its {{.Reason}}`,
		ops.VerbProbeFailed:      `{{.Service}} is {{.Detail.Status}}: {{.Reason}}`,
		ops.VerbProbeWaited: `{{.Service}} is still down, but {{.Detail.DependsOn}}, which it depends on, ` +
			`has just recovered: it gets time to follow`,
		ops.VerbReflexAsked:    `Make this a reflex? {{.Detail.Does}}`,
		ops.VerbReflexFailed:   reflex + ` is off until a person switches it on` + why,
		ops.VerbReflexSwitched: `{{.Who}} switched ` + reflex + ` {{.Detail.State}}` + why,
		ops.VerbReplyTaken: `{{if .Reason}}an answer of {{.Who}} by {{else}}{{.Who}} used a button by {{end}}{{.Detail.Channel}}` +
			`{{if .Detail.Kind}} to {{.Detail.Decision}} {{.Detail.Kind}} {{.Detail.ID}}{{end}}` +
			`{{with .Detail.Plan}} with the plan {{.}}{{end}}{{with .Reason}} was refused: {{.}}{{end}}`,
		ops.VerbRequestDone:      request,
		ops.VerbServiceForgotten: `{{.Who}} forgot the service {{.Service}}`,
		ops.VerbSessionInterrupted: `session {{.ID}} ({{.Detail.Tier}}) was in flight when the supervisor ended` +
			`{{with .Detail.Killed}}; {{.}} of its processes were still there and were ended{{end}}`,
		ops.VerbSessionStopped:  `{{.Who}} stopped session #{{.ID}}`,
		ops.VerbSettingsChanged: `{{.Who}} {{.Detail.Did}}`,
		ops.VerbSilenceChanged: `{{.Who}} {{if .Detail.Until}}silenced{{else}}ended the silence of{{end}} {{silenced .Detail}}` +
			`{{with .Detail.Until}} until {{at .}}{{end}}` + why,
		ops.VerbTokenMade: `{{.Who}} made the token {{.ID}} with the role {{.Detail.Role}}, ` +
			`{{with .Detail.Until}}until {{at .}}{{else}}without an end{{end}}`,
		ops.VerbAllResumed:    `{{.Who}} let Claude Ops work again` + why,
		ops.VerbAllStopped:    `{{.Who}} stopped everything: no agent, reflex, plan or update starts` + why,
		ops.VerbTokenRevoked:  `{{.Who}} revoked the token {{.ID}}`,
		ops.VerbTrustChanged:  `{{.Who}} changed the trust in {{.Service}} from {{.Detail.From}} to {{.Detail.To}}` + why,
		ops.VerbTrustLowered:  `{{.Service}} is trusted less: {{.Detail.To}}` + why,
		ops.VerbUpdateAsked:   `{{or .Actor.Name "the schedule"}} asked for ` + update + `{{with .Detail.To}} {{.}}{{end}}`,
		ops.VerbUpdateChanged: update + ` is {{.Detail.Phase}}` + why,
		ops.VerbWallRefused: `{{if .Reason}}The network refused {{.Detail.What}}: {{.Reason}}.` +
			`{{else}}A wall refused {{.Detail.What}}.{{end}}`,
		ops.VerbWallsBroken:  `The session was stopped: {{.Reason}}`,
		ops.VerbWatchChanged: flood,
	}
}

var sentences = sync.OnceValue(func() *template.Template {
	all := template.New("events").Funcs(template.FuncMap{
		"answered": Rows{}.Answered, "lasts": NoLasts, "silenced": silenced, "at": At, "contains": strings.Contains,
		"list":    func(names []string) string { return strings.Join(names, ", ") },
		"seconds": func(n int64) time.Duration { return time.Duration(n) * time.Second },
		"since":   func(from, to time.Time) time.Duration { return to.Sub(from).Round(time.Second) },
		"clock": func(ahead int64) string {
			if d := time.Duration(ahead) * time.Millisecond; d.Abs() > ops.MaxClockSkew {
				return "is " + ops.ClockDifference(d) + " the database's; the database's time is used, but synchronize the clocks"
			}
			return "agrees with the database's again"
		},
	})
	for verb, text := range texts() {
		template.Must(all.New(string(verb)).Parse(text))
	}
	return all
})

// Answered says who answered what.
func (Rows) Answered(who string, a ops.ApprovalDetail) string {
	what := a.Tier.String()
	if a.Kind == ops.ApprovalReview {
		what = "the repair of " + what
	}
	if a.Kind == ops.ApprovalReflex {
		what = a.Handler
	}
	switch a.Status {
	case ops.ApprovalExpired:
		return "the question about " + what + " expired (" + who + ")"
	case ops.ApprovalWithdrawn:
		return "the question about " + what + " needs no answer any more"
	case ops.ApprovalPending:
		return "the question about " + what + " is pending"
	case ops.ApprovalApproved, ops.ApprovalDenied:
	}
	return who + " " + string(a.Status) + " " + what
}

// silenced says what a silence matches.
func silenced(d ops.SilenceDetail) string {
	var parts []string
	for _, p := range []fact{{"service", d.Service}, {"group", d.Group}, {"probe", d.Probe}} {
		if p.text != "" {
			parts = append(parts, p.name+" "+p.text)
		}
	}
	if d.Labels > 0 {
		parts = append(parts, "alerts by "+strconv.Itoa(d.Labels)+" labels")
	}
	return strings.Join(parts, ", ")
}

// HandoffTwice says that a session reported in two ways.
const HandoffTwice = "the session left a handoff file beside its structured outcome; the file is deleted unread"

// AllowedUnread says that the calls of a session could not be read.
func AllowedUnread(err error) string {
	return "what the session was allowed could not be read: " + err.Error()
}

// GatesUnclosed says that what a session left half done may not be known.
func GatesUnclosed(err error) string { return "the gates did not close cleanly: " + err.Error() }
