package guard

import (
	"reflect"
	"testing"

	"claudeops/internal/ops"
)

func TestEffectsNameEveryServiceOnceAndCanonically(t *testing.T) {
	restart := func(s string) Effect { return Effect{Kind: EffectRestart, Service: s} }
	infra := func(kind EffectKind, s string, phase Phase) Effect {
		return Effect{Kind: kind, Service: s, Project: "infra", Phase: phase}
	}
	for _, c := range []struct {
		command string
		want    []Effect
	}{
		{"docker ps", nil},
		{"docker restart jellyfin", []Effect{restart("jellyfin")}},
		{"docker restart jf", []Effect{restart("jellyfin")}},
		{"docker restart media_jellyfin sonarr", []Effect{restart("jellyfin"), restart("sonarr")}},
		{"docker restart infra-jellyfin-1", []Effect{restart("jellyfin")}},
		{"docker restart unlisted", []Effect{restart("unlisted")}},
		{"docker restart sonarr; docker restart sonarr", []Effect{restart("sonarr"), restart("sonarr")}},
		{"ssh ie01 docker restart jf", []Effect{restart("jellyfin")}},
		{"sh -c 'docker restart jf'", []Effect{restart("jellyfin")}},
		{"docker start sonarr", []Effect{{Kind: EffectRestart, Service: "sonarr", Phase: PhaseClose}}},
		{"docker stop sonarr && docker start sonarr", []Effect{
			{Kind: EffectRedeployment, Service: "sonarr", Phase: PhaseOpen}, {Kind: EffectRestart, Service: "sonarr", Phase: PhaseClose},
		}},
		{"docker compose up -d jf", []Effect{infra(EffectRestart, "jellyfin", PhaseClose)}},
		{"docker compose restart jf", []Effect{infra(EffectRestart, "jellyfin", Whole)}},
		{"docker compose -f /repos/media/compose.yaml down", []Effect{
			{Kind: EffectRedeployment, Service: "compose:media", Project: "media", Phase: PhaseOpen},
		}},
		{"docker compose -p x down && docker compose -p x up -d", []Effect{
			{Kind: EffectRedeployment, Service: "compose:x", Project: "x", Phase: PhaseOpen},
			{Kind: EffectRedeployment, Service: "compose:x", Project: "x", Phase: PhaseClose},
		}},
		{"ansible-playbook playbooks/jf.yml", []Effect{{Kind: EffectRedeployment, Service: "jellyfin"}}},
		{"ansible-playbook playbooks/site.yml -e service=jf", []Effect{{Kind: EffectRedeployment, Service: "jellyfin"}}},
		{"ansible-playbook playbooks/a.yml playbooks/b.yml", []Effect{{Kind: EffectRedeployment, Service: "a"}, {Kind: EffectRedeployment, Service: "b"}}},
		{"ansible-playbook playbooks/jf.yml --check", nil},
		{"helm upgrade web ./charts/web", []Effect{{Kind: EffectRedeployment, Service: "web"}}},
		{"helm rollback web 1 --dry-run", nil},
		{"systemctl restart nginx.service", []Effect{restart("nginx")}},
		{"kubectl rollout restart deploy/web", []Effect{restart("web")}},
		{"/repos/infra/scripts/redeploy.sh x", []Effect{{Kind: EffectRedeployment, Service: "/repos/infra/scripts/redeploy.sh"}}},
	} {
		d := newGuard(t).Check(ops.Tier3, "Bash", bashInput(t, c.command), testFacts())
		if !d.Allowed() {
			t.Errorf("%q: denied: %s %s", c.command, d.Rule, d.Reason)
		}
		if !reflect.DeepEqual(d.Effects, c.want) {
			t.Errorf("%q:\n got %+v\nwant %+v", c.command, d.Effects, c.want)
		}
	}
}

func TestDeniedCallsHaveNoEffectsAndNoScript(t *testing.T) {
	d := newGuard(t).Check(ops.Tier1, "Bash", bashInput(t, "docker restart jellyfin"), testFacts())
	if d.Allowed() || len(d.Effects) != 0 || d.Script != "" {
		t.Errorf("got %+v", d)
	}
}

func TestAnEffectOnAnUnknowableServiceIsDenied(t *testing.T) {
	for _, command := range []string{
		"docker restart 3f2a9c8b1d2e", "docker restart $x", "docker restart", "cd \"$x\" && docker compose down", "helm upgrade $x ./charts/web", "kubectl scale --all --replicas=0 deploy",
	} {
		if d := newGuard(t).Check(ops.Tier3, "Bash", bashInput(t, command), testFacts()); d.Allowed() {
			t.Errorf("%q is allowed with %+v", command, d.Effects)
		}
	}
}
