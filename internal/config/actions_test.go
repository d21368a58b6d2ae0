package config

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

const withActions = `repos_dir: /srv/repos
services:
  - name: jellyfin
    container: jellyfin
    compose: {repo: homelab, file: media/compose.yml, project: media}
    actions:
      - {name: clear-cache, run: [rm, -r, /srv/cache], cooldown: {count: 2, per: 4h}, timeout: 60s}
      - {name: rollback, tier: 3, run: [/srv/bin/deploy, "{{previous}}"], undo: [/srv/bin/deploy, "{{current}}"], approval: true}
      - {name: stop, approval: true}
      - {name: start, off: true}
      - {name: propose, push: "git@example.org:me/homelab.git", repo: homelab}
  - name: cron
    probes: [{type: systemd, unit: cron.service}]
  - name: plain
    probes: [{type: http, url: "http://127.0.0.1/"}]
`

func TestAServiceHasItsBuiltInAndDeclaredActions(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: withActions})
	services := c.Environments()[0].Policy.Inventory
	names := func(service string) string {
		for _, s := range services.Services {
			if s.Name == service {
				return listOr(s.Actions, "")
			}
		}
		return "?"
	}
	for service, want := range map[string]string{
		"jellyfin": "restart, stop, redeploy, apply, clear-cache, rollback, propose", "cron": "restart, start, stop", "plain": "",
	} {
		if got := names(service); got != want {
			t.Errorf("%s has %q, want %q", service, got, want)
		}
	}
	if off := services.Services[0].Off; len(off) != 1 || off[0] != "start" {
		t.Errorf("turned off: %q", off)
	}
	own, _ := services.Action("jellyfin", "clear-cache")
	want := ops.CooldownLimit{Service: "jellyfin", Action: "clear-cache", Count: 2, Window: 4 * time.Hour}
	if own.Kind != ops.ActionCommand || own.Tier != ops.Tier2 || own.Limit != want || own.Counts != "clear-cache" || own.Timeout != time.Minute {
		t.Errorf("clear-cache is %+v", own)
	}
	restart, _ := services.Action("jellyfin", "restart")
	if restart.Tier != ops.Tier2 || restart.Counts != ops.CountsRestart || restart.Container != "jellyfin" {
		t.Errorf("restart is %+v", restart)
	}
	if stop, _ := services.Action("jellyfin", "stop"); !stop.Approval || stop.Tier != ops.Tier3 || stop.Counts != ops.CountsRedeployment {
		t.Errorf("stop is %+v", stop)
	}
	if back, _ := services.Action("jellyfin", "rollback"); back.Counts != ops.CountsRedeployment || !back.Undoable() || !back.Approval {
		t.Errorf("rollback is %+v", back)
	}
	if unit, _ := services.Action("cron", "restart"); unit.Unit != "cron.service" || unit.Container != "" {
		t.Errorf("restart of a unit is %+v", unit)
	}
	if push, _ := services.Action("jellyfin", "propose"); push.Kind != ops.ActionPush || push.Prefix != "claudeops/" {
		t.Errorf("propose is %+v", push)
	}
}

func TestAnActionThatCannotWorkIsRefusedAtStart(t *testing.T) {
	for name, c := range map[string]struct{ entry, says string }{
		"no name":             {`{run: [true]}`, "no name"},
		"name like an option": {`{name: -x, run: [true]}`, "not a name for an action"},
		"nothing to run":      {`{name: fix}`, "does not say what it runs"},
		"two ways":            {`{name: fix, run: [true], playbook: a.yml, repo: r}`, "more than one of"},
		"no repository":       {`{name: fix, playbook: a.yml}`, "names no repository"},
		"outside":             {`{name: fix, playbook: ../a.yml, repo: r}`, "not a path inside a repository"},
		"option as path":      {`{name: fix, playbook: -v.yml, repo: r}`, "not a path inside a repository"},
		"repo with a slash":   {`{name: fix, playbook: a.yml, repo: ../r}`, "not a folder name"},
		"tier 1":              {`{name: fix, tier: 1, run: [true]}`, "tier"},
		"built in":            {`{name: restart, run: [true]}`, "is a built-in action"},
		"lower tier":          {`{name: stop, tier: 2}`, "needs a higher tier"},
		"placeholder":         {`{name: fix, run: [echo, "{{secret}}"]}`, "is not known"},
		"empty":               {`{name: fix, run: []}`, "empty"},
		"option as program":   {`{name: fix, run: [--help]}`, "looks like an option"},
		"too long":            {`{name: fix, run: [true], timeout: 31m}`, "too long"},
		"where agents write":  {`{name: fix, run: [/srv/repos/r/fix.sh]}`, "where agents write"},
		"undo in the clone":   {`{name: fix, run: [true], undo: [/srv/repos/r/fix.sh]}`, "where agents write"},
		"remote helper":       {`{name: fix, push: "ext::sh -c id", repo: r}`, "not the address of a repository"},
		"cooldown":            {`{name: fix, run: [true], cooldown: {count: 2}}`, "per is missing"},
		"unknown key":         {`{name: fix, run: [true], shell: x}`, "shell"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := load(t, setup{yaml: "repos_dir: /srv/repos\nservices:\n  - name: web\n    container: web\n    actions:\n      - " + c.entry + "\n"})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q", err, c.says)
			}
			if !strings.Contains(err.Error(), "claudeops.yaml:") {
				t.Errorf("%v names no line", err)
			}
		})
	}
}

func TestAServiceHasAContainerOrAUnit(t *testing.T) {
	_, _, err := load(t, setup{yaml: "services: [{name: web, container: web, unit: web.service}]\n"})
	if err == nil || !strings.Contains(err.Error(), "not both") {
		t.Error(err)
	}
	_, _, err = load(t, setup{yaml: "services: [{name: web, compose: {repo: r, file: c.yml}}]\n"})
	if err == nil || !strings.Contains(err.Error(), "repos_dir") {
		t.Error(err)
	}
}
