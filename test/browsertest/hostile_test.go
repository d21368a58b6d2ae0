package browsertest

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
)

// hostile is text that wants to run in the reader's browser. All of it calls pwned, which tells on it.
func hostile() []string {
	return []string{
		`<script>pwned()</script>`,
		`"><img src=x onerror=pwned()>`,
		`' autofocus onfocus='pwned()' x='`,
		`</title></style></textarea></pre></code></script><svg onload=pwned()>`,
		`[click](javascript:pwned()) <javascript:pwned()> ![x](javascript:pwned())`,
		`<iframe srcdoc="<script>parent.pwned()</script>"></iframe><object data="javascript:pwned()"></object>`,
		`<details open ontoggle=pwned()><summary>x</summary></details><body onload=pwned()>`,
		`<a href="java&#115;cript:pwned()" autofocus onfocus=pwned()>x</a><math><mi xlink:href="javascript:pwned()">x</mi></math>`,
		`<div hx-get="/stream" hx-trigger="load" hx-on:htmx:load="pwned()" hx-on::after-request="pwned()" data-hx-on:click="pwned()">x</div>`,
		`<hx-partial hx-target="body" hx-swap="beforeend"><script>pwned()</script></hx-partial><template hx-swap-oob="true">x</template>`,
		`<meta http-equiv="refresh" content="0;url=javascript:pwned()"><base href="//evil.example/"><link rel=stylesheet href="//evil.example/x.css">`,
		"\x1b]8;;javascript:pwned()\x07click\x1b]8;;\x07\x1b[31m<img src=//evil.example/x onerror=pwned()>\x1b[0m",
		"data: x\n\nevent: changed\ndata: <script>pwned()</script>\n\n\revent: ended\r\r",
		`{{.Token}}${pwned()}<!--<script>pwned()//-->]]><x onpointerenter=pwned() style="position:fixed;inset:0;background:url(//evil.example/x)">`,
		"```html\n</code></pre><img src=x onerror=pwned()>\n``` <style>*{background:url(//evil.example/x)}</style>",
	}
}

// TestHostileTextNeverRuns shows the corpus everywhere where foreign text is shown, loaded with the page and brought by its stream.
func TestHostileTextNeverRuns(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	texts := hostile()
	var every string
	for _, text := range texts {
		every += text + "\n\n"
	}
	var ids []ops.SessionID
	for n, text := range texts {
		h := ops.Handler{ID: text, Tier: 1, Family: text, Agent: text, Model: text}
		ids = append(ids, j.play(j.begin(ops.NewCycle{Prompt: text}),
			ops.Step{Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: text, Incident: &ops.IncidentReport{
				Title: text, Level: ops.Level(text), Class: text, Services: []string{fmt.Sprintf("%s %d", text,
					n)}, Findings: text, Tried: text, Recommendation: text,
				Checks: []ops.CheckResult{{Service: text, CheckType: ops.CheckType(text), Status: ops.Down, Error: text}},
			}}, run{
				handler: h, takes: time.Second, status: ops.SessionFailed, outcome: ops.OutcomeEscalate, failure: text, err: text, handoff: text,
				summary: text, lines: evil(text),
				guard: []ops.GuardRecord{{Gate: ops.GateHook, Tool: text, Input: text, Rule: text, Reason: text}},
				decision: &ops.Decision{
					SourceHandler: text, TargetHandler: text, Reason: text, Proposed: text, Path: []string{text}, Verdict: ops.Verdict(text), Check: ops.Objection(text),
					ProcessMode: ops.ProcessMode(text), Services: []string{text}, At: j.now,
				},
				events: []ops.Event{{Level: ops.Level(text), Verb: ops.Verb(text), Service: text, Reason: text}},
			})...)
		j.must(j.store.Watch.AddChecks(t.Context(), []ops.Check{{
			At: j.now, Environment: "default", Service: text, Probe: text, Type: ops.CheckHTTP, Status: ops.Down, Error: text,
			Purpose: ops.ProbeObserve,
		}}))
		_, err := j.store.People.AddMemory(t.Context(), ops.Memory{
			Environment: "default", Category: text, Service: text, Observation: text,
			Source: text,
		})
		j.must(err)
		_, err = j.store.Watch.AddSilence(t.Context(), ops.Silence{
			Environment: "default", Service: text, Group: text, Probe: text, Labels: map[string]string{"name": text}, Reason: text, Author: text,
			CreatedAt: j.now, From: j.now, Until: j.now.Add(time.Hour),
		})
		j.must(err)
		_, err = j.store.People.AddNotice(t.Context(), ops.Notice{
			Kind: ops.NoticeKind(text), Level: ops.Level(text), Title: text, Body: text,
			Environment: "default", Service: text, Key: text, NextAt: j.now, CreatedAt: j.now,
		})
		j.must(err)
	}
	question := j.ask("default", every, every)
	running := j.play(j.begin(ops.NewCycle{Environment: "staging", Prompt: every}), ops.Step{},
		run{handler: ops.Handler{ID: every, Tier: 1, Model: every}, status: ops.SessionRunning, lines: evil(every)})[0]
	w := serve(t, j.store, func(o *web.Options) {
		o.Environments[0].Policy.Handlers[0].ID, o.Environments[0].Notes = every, every
		o.Settings = []web.Setting{{Key: every, Value: every, Origin: every, Env: every, Doc: every}}
	})

	query := url.QueryEscape(texts[1])
	paths := []string{
		"/", "/sessions", "/sessions?q=" + query, "/cycles/1", path("/cycles/%d", question.CycleID), "/incidents", "/incidents?tab=open", "/incidents/1", "/incidents/1/snooze",
		path("/approvals/%d", question.ID), "/services",
		"/services?q=" + query, "/costs?by=service", "/costs?by=model", "/events", "/events?kind=" + query, "/memory",
		"/memory?category=" + query, "/silences", "/notifications",
		"/config", "/config?q=" + query, path("/sessions/%d?find=%s", ids[0], query), path("/sessions/%d?tab=result", ids[1]),
	}
	for _, id := range ids {
		paths = append(paths, path("/sessions/%d", id))
	}
	for _, half := range [][]string{paths[:len(paths)/2], paths[len(paths)/2:]} {
		t.Run("pages", func(t *testing.T) {
			t.Parallel()
			b := open(t, w.base())
			for _, p := range half {
				b.visit(p)
				b.provoke()
			}
		})
	}
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		b := open(t, w.base())
		b.visit(path("/sessions/%d", running))
		b.live()
		for _, text := range texts {
			j.say(running, evil(text)...)
		}
		j.say(running, said("this was the last line"))
		b.sees("this was the last line")
		b.provoke()
		j.end(running, run{status: ops.SessionFailed, failure: every, err: every, summary: every, handoff: every}, finish(ops.CycleFailed, every))
		b.wait("the end is told", `document.querySelector('#stream').dataset.state === 'ended'`)
		b.provoke()
		b.noLineTwice()
	})
}

// evil says a text in every way an agent can.
func evil(text string) []string {
	q := quoted(text)
	return []string{
		fmt.Sprintf(`{"type":"system","subtype":"init","session_id":%s,"tools":[%[1]s],"model":%[1]s}`, q),
		said(text),
		fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"thinking","thinking":%s},{"type":"tool_use","id":%[1]s,"name":%[1]s,"input":{"command":%[1]s,%[1]s:%[1]s}},{"type":%[1]s}]}}`, q),
		fmt.Sprintf(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":%s,"content":%[1]s,"is_error":true}]}}`, q),
		fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"f","name":%s,"input":{"file_path":%[1]s}}]}}`, q),
		fmt.Sprintf(`{"type":"stderr","text":%s}`, q),
		fmt.Sprintf(`{"type":%s,"subtype":%[1]s}`, q),
		text,
		fmt.Sprintf(`{"type":"result","is_error":true,"result":%s,"errors":[%[1]s]}`, q),
	}
}

// provoke opens, touches and points at everything, and looks for elements that the corpus made.
func (b *tab) provoke() {
	b.t.Helper()
	made := eval[[]string](b, `(() => {
		for (const d of document.querySelectorAll('details')) d.open = true;
		for (const e of document.querySelectorAll('main *')) {
			for (const kind of ['pointerenter', 'mouseover', 'focus', 'toggle', 'load', 'error']) e.dispatchEvent(new Event(kind));
		}
		return [...document.querySelectorAll('body script, main img, iframe, object, embed, base, body meta, body link, body style, hx-partial, main [style], main math, main x, [srcdoc]')]
			.concat([...document.querySelectorAll('main *')].filter((e) => [...e.attributes].some((a) => /^on|^hx-on|^data-hx/.test(a.name) || /^\s*(javascript|vbscript|data):/i.test(a.value) && /^(href|src|action|formaction|xlink:href|hx-.*)$/.test(a.name))))
			.map((e) => e.outerHTML.slice(0, 200));
	})()`)
	for _, element := range made {
		b.t.Errorf("%s: foreign text became an element: %s", eval[string](b, "location.pathname"), element)
	}
}
