package main

import "fmt"

// settings is the configuration of a box.
func settings(b *box) string {
	return fmt.Sprintf(`interval: 1h
agent:
  bin: scripted
  scenario: %q
  env: [%s, FAULT_DIR]
guard:
  rules: %q
sandbox:
  readable: [%q]
notify:
  apprise_api: %q
services:
  - name: web
    probes:
      - {type: http, url: "%s/health", timeout: 5s, interval: 1h}
%s%s`, b.file("scenario.yaml"), serviceVar, b.file("rules.yaml"), b.dir, b.service.url+"/notify", b.service.url, b.actionSettings(), b.more)
}

// actionSettings gives the service an action for each of the two verbs. An action does not get the environment of the program.
func (b *box) actionSettings() string {
	if !b.actions {
		return ""
	}
	action := func(name string, tier int, verb string) string {
		return fmt.Sprintf("      - {name: %s, tier: %d, run: [/usr/bin/env, %q, %q, %q, %s]}\n",
			name, tier, serviceVar+"="+b.service.url, "FAULT_DIR="+b.dir, b.file("bin/"+ctlName), verb)
	}
	// An interrupted action stays counted. Two of them must not use up what is allowed.
	return "    actions:\n" + action("patch", 2, "restart") + action("rebuild", 3, "redeploy") + "cooldown: {restarts: 5, redeployments: 5}\n"
}

// actingChain is the chain whose agents ask the supervisor to act.
func actingChain() string {
	text := replaceOnce(chain, "- bash: 'webctl restart'", "- act: {service: web, action: patch, why: it answers 502}")
	return replaceOnce(text, "- bash: 'webctl redeploy'", "- act: {service: web, action: rebuild, why: a restart did not help}")
}

const rules = `rules:
  - {id: web-get, program: webctl, args: [get], tier: 1, reason: Asking changes nothing.,
     match: [webctl get], not_match: [webctl restart]}
  - {id: web-restart, program: webctl, args: [restart], tier: 2, cooldown: restart, service: web, reason: A restart is safe.,
     match: [webctl restart], not_match: [webctl redeploy]}
  - {id: web-redeploy, program: webctl, args: [redeploy], tier: 3, cooldown: redeployment, service: web, reason: It repairs fully.,
     match: [webctl redeploy], not_match: [webctl restart]}
`

// chain is three tiers: one looks, one restarts in vain, one redeploys. Each looks before it does anything, as an agent that
// was told of an interrupted attempt does.
const chain = `name: three tiers
tiers:
  1:
    cost_usd: 0.02
    steps:
      - when: {bash: 'webctl get', exit: 0}
        steps: [{finish: {result: All is well., outcome: {schema_version: 1, outcome: healthy, summary: it answers,
          check_results: [{service: web, check_type: http, status: healthy, error: ""}], actions: [], events: [], memories: []}}}]
    outcome:
      schema_version: 1
      outcome: escalate
      summary: web answers 502
      check_results: &checks1 [{service: web, check_type: http, status: down, error: HTTP 502}]
      handoff: {schema_version: 1, recommended_tier: 2, reason: it answers 502, services_affected: [web], check_results: *checks1, cooldown_state: {}}
      actions: []
      events: []
      memories: []
    result: web is down.
  2:
    cost_usd: 0.31
    steps:
      - when: {bash: 'webctl get', exit: 0}
        steps: [{finish: &well {result: It answers again., outcome: {schema_version: 1, outcome: resolved, summary: it answers,
          check_results: [{service: web, check_type: http, status: healthy, error: ""}], actions: [], events: [], memories: []}}}]
      - bash: 'webctl restart'
    outcome:
      schema_version: 1
      outcome: escalate
      summary: a restart did not help
      check_results: &checks2 [{service: web, check_type: http, status: down, error: HTTP 502 after a restart}]
      handoff: {schema_version: 1, recommended_tier: 3, reason: a restart did not help, services_affected: [web], check_results: *checks2,
        investigation_findings: it has no upstream, remediation_attempted: restarted it once, cooldown_state: {}}
      actions: [{service: web, action: restart, success: false, detail: still 502}]
      events: []
      memories: []
    result: A restart did not help.
  3:
    cost_usd: 1.20
    steps:
      - when: {bash: 'webctl get', exit: 0}
        steps: [{finish: *well}]
      - bash: 'webctl redeploy'
    outcome: {schema_version: 1, outcome: resolved, summary: redeployed, check_results: [{service: web, check_type: http, status: healthy, error: ""}],
      actions: [{service: web, action: redeploy, success: true, detail: it answers}], events: [], memories: []}
    result: It is redeployed and answers.
`
