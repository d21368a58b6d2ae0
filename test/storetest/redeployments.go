package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
)

func redeploymentCases() []testCase {
	return []testCase{
		{"down then up is one redeployment", downThenUp},
		{"what is down may come up whatever the cooldown says", neverStranded},
		{"up without down is a restart", upWithoutDown},
		{"one down covers one up", oneDownCoversOneUp},
		{"down and up in one command", downAndUpInOneCommand},
		{"a project taken down comes up service by service, each once", projectComesUp},
		{"a project's up closes the services taken down", projectUpClosesServices},
		{"another session's down covers nothing", otherSessionsDown},
		{"a released up leaves the service down", releasedUp},
	}
}

func down(service, project string) ops.Reservation {
	return ops.Reservation{Service: service, Project: project, Action: redeployAction, Half: ops.HalfOpen}
}

func up(service, project string) ops.Reservation {
	return ops.Reservation{Service: service, Project: project, Action: restartAction, Half: ops.HalfClose}
}

func (f *Fixture) wantDown(t *testing.T, s ops.Session, want ...string) {
	t.Helper()
	got, err := f.Store.ServicesLeftDown(t.Context(), s.ID)
	must(t, err)
	equal(t, "down", got, want)
}

func oneRedeployment(service string) []ops.Cooldown {
	return []ops.Cooldown{{Service: service, Action: redeployAction, Until: Start.Add(24 * time.Hour)}}
}

func downThenUp(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.wantDown(t, session)
	stop := down("web", "shop")
	stop.Action = restartAction // whatever it is called, it opens a redeployment
	wantAllowed(t, f.hook(t, session, "toolu_1", stop))
	wantAllowed(t, f.shell(t, session, stop))
	f.wantDown(t, session, "web")
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "shop"))) // asked again
	f.wantDown(t, session)
	wantAllowed(t, f.shell(t, session, up("web", "shop")))
	wantDenied(t, f.shell(t, session, up("web", "shop")), "cooldown.unreserved")
	equal(t, "cooldowns", f.cooldowns(t), oneRedeployment("web"))
	wantDenied(t, f.hook(t, session, "toolu_3", down("web", "shop")), "cooldown", "web", "redeployment", "2026-03-15T12:00:00Z")
}

func neverStranded(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", restart("web", "web")...))
	wantAllowed(t, f.hook(t, session, "toolu_2", down("web", "")))
	_, err := f.Store.ClearCooldown(t.Context(), "home", "web", redeployAction, "because", "alice", f.At)
	must(t, err)
	f.wantDown(t, session, "web")
	wantDenied(t, f.hook(t, session, "toolu_3", restart("web")...), "cooldown")
	wantAllowed(t, f.hook(t, session, "toolu_4", up("web", "")))
	wantAllowed(t, f.shell(t, session, up("web", "")))
}

func upWithoutDown(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", up("web", "shop")))
	wantAllowed(t, f.shell(t, session, up("web", "shop")))
	equal(t, "cooldowns", f.cooldowns(t), []ops.Cooldown{{Service: "web", Action: restartAction, Left: 1}})
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "shop")))
	wantDenied(t, f.hook(t, session, "toolu_3", up("web", "shop")), "cooldown", "web", "restart")
}

func oneDownCoversOneUp(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", down("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_2", up("db", "shop"))) // not the one that is down: a restart
	f.wantDown(t, session, "web")
	wantAllowed(t, f.hook(t, session, "toolu_3", up("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_4", up("web", "shop")))
	equal(t, "cooldowns", f.cooldowns(t), append([]ops.Cooldown{
		{Service: "db", Action: restartAction, Left: 1},
	}, append(oneRedeployment("web"), ops.Cooldown{Service: "web", Action: restartAction, Left: 1})...))
}

func downAndUpInOneCommand(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	both := []ops.Reservation{down("web", "shop"), up("web", "shop")}
	wantAllowed(t, f.hook(t, session, "toolu_1", both...))
	wantAllowed(t, f.hook(t, session, "toolu_1", both...))
	wantAllowed(t, f.shell(t, session, both...))
	f.wantDown(t, session)
	equal(t, "cooldowns", f.cooldowns(t), oneRedeployment("web"))
	wantDenied(t, f.hook(t, session, "toolu_2", both...), "cooldown")
}

func projectComesUp(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", down("compose:shop", "shop")))
	f.wantDown(t, session, "compose:shop")
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_3", up("db", "shop")))
	f.wantDown(t, session)
	equal(t, "cooldowns", f.cooldowns(t), oneRedeployment("compose:shop"))
	wantAllowed(t, f.hook(t, session, "toolu_4", up("web", "shop")))
	wantAllowed(t, f.hook(t, session, "toolu_5", up("mail", "post")))
	equal(t, "a second time it counts", f.cooldowns(t), append(oneRedeployment("compose:shop"),
		ops.Cooldown{Service: "mail", Action: restartAction, Left: 1}, ops.Cooldown{Service: "web", Action: restartAction, Left: 1}))
}

func projectUpClosesServices(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", down("web", "shop"), down("db", "shop"), down("mail", "post")))
	whole := up("compose:shop", "shop")
	whole.Action = redeployAction
	wantAllowed(t, f.hook(t, session, "toolu_2", whole))
	f.wantDown(t, session, "mail")
	equal(t, "redeployments", len(f.cooldowns(t)), 3)
	wantAllowed(t, f.hook(t, session, "toolu_3", whole))
	wantDenied(t, f.hook(t, session, "toolu_4", whole), "cooldown", "compose:shop")
}

func otherSessionsDown(t *testing.T, f *Fixture) {
	first := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, first, "toolu_1", down("web", "")))
	second := *f.Commit(t, f.Escalation(first, 1)).Journal.Last()
	must(t, f.Start(t, second.ID, "planned-2", f.At))
	f.wantDown(t, first, "web")
	f.wantDown(t, second)
	wantAllowed(t, f.hook(t, second, "toolu_1", up("web", "")))
	equal(t, "the next tier brings it up as the same redeployment", f.cooldowns(t), oneRedeployment("web"))
	f.wantDown(t, first)
}

func releasedUp(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	wantAllowed(t, f.hook(t, session, "toolu_1", down("web", "")))
	wantAllowed(t, f.shell(t, session, down("web", "")))
	wantAllowed(t, f.hook(t, session, "toolu_2", up("web", "")))
	_, err := f.Store.ReleaseActions(t.Context(), f.Owner, session.ID, "toolu_2")
	must(t, err)
	f.wantDown(t, session, "web")
	wantAllowed(t, f.hook(t, session, "toolu_3", up("web", "")))
	f.wantDown(t, session)
	equal(t, "cooldowns", f.cooldowns(t), oneRedeployment("web"))

	wantAllowed(t, f.hook(t, session, "toolu_4", down("mail", "post"), down("spam", "post")))
	wantAllowed(t, f.hook(t, session, "toolu_5", up("compose:post", "post")))
	f.wantDown(t, session)
	_, err = f.Store.ReleaseActions(t.Context(), f.Owner, session.ID, "toolu_5")
	must(t, err)
	f.wantDown(t, session, "mail", "spam")
}
