package main

// Tests of the table that decides.
const (
	next    = "./internal/decide ^TestNext$"
	updates = "./internal/decide Update"
	health  = "./internal/decide/health ."
	sqlite  = "./internal/store ^TestConformanceOnSQLite$/"
)

func mutations() []mutation {
	const (
		table   = "internal/decide/next.go"
		ruling  = "internal/decide/escalation/decide.go"
		actions = "internal/store/guard_actions.go"
	)
	return []mutation{
		// What decides.
		{"tier limit", ruling, "r.target.Tier <= r.policy.MaxTier {", "r.target.Tier <= r.policy.MaxTier+1 {", next},
		{"dry run", ruling, "if !r.policy.DryRun {", "if true {", next},
		{"budget", ruling, "if !spent {", "if spent || !spent {", next},
		{"a no holds", "internal/decide/holds.go", "return no.Refuses(v.now) && no.Knew(", "return false && no.Knew(", next},
		{"a silence holds agents", "internal/decide/holds.go", "if !s.Active(v.now) || len(s.Labels) > 0", "if true || len(s.Labels) > 0", next},
		{"trust", "internal/decide/holds.go", "if trust.Forbids(tier) {", "if false {", next},
		{"stop row", table, `{"all is stopped", view.standing, leaveStopped},`, "", next},
		{"verification after a repair", table, `{"claim unverified", view.unverified, verify},`, "", next},
		{"a refuted claim", table, `{"claim refuted", view.refuted, losesTrust(recovers(refutedWithoutRecovery))},`, "", next},
		{"a reflex is verified", table, `{"reflex unverified", of(reflexes.unverified), verifyReflex},`, "", next},
		{"silence is no yes", table, `{"nobody answered", view.expired, unanswered},`, "", next},
		{"an update goes back", "internal/decide/update.go", `{"worse", updating.worsened, ends(ops.UpdateGoingBack,`, `{"worse", updating.worsened, ends(ops.UpdateKept,`, updates},
		{"handoff version", "internal/decide/report/read.go", "number(n).Cmp(big.NewRat(Version, 1)) != 0", "number(n) == nil", "./internal/decide/report ."},
		{"a failed exit is no success", "internal/agent/result.go", "case *res.ExitCode != 0:", "case *res.ExitCode > 255:", "./internal/agent ."},

		// What is stored.
		{"cooldown counted", "internal/store/guard_cooldowns.go", "age < l.Window {", "age < l.Window/2 {", sqlite + "cooldown"},
		{"the hash of a plan", actions, "case ops.PlanHash(a.CycleID, a.SessionID, a.Plan) != a.PlanHash:", "case a.PlanHash == \"\":", sqlite + "action/nothing_runs"},
		{"a step as approved", actions, "|| step.Digest != r.Digest {", "{", sqlite + "action"},
		{"undone once", "internal/store/migrations/00001_baseline.sql", "UNIQUE INDEX idx_action_runs_undo", "INDEX idx_action_runs_undo", sqlite + "action/a_run_is_undone"},
		{"an approval expires", "internal/store/people_approvals.go", "status = ? AND expires_at <= ?`", "status = ? AND expires_at > ?`", sqlite + "await"},
		{"intent before effect", "internal/act/act.go", "run, refusal, err := r.o.Ledger.BeginAction(", "_, _ = task.run(ctx, ops.ActionRun{})\n\trun, refusal, err := r.o.Ledger.BeginAction(", "./internal/act Refused|Cooldown|Recorded"},
		{"a job is completed", "internal/engine/river/jobs.go", "river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, own)", "own, error(nil)", "./internal/engine/river GivenBack|Conformance"},
		{"lease", "internal/daemon/supervisor/lease.go", "return l.Length * 2 / 3", "return l.Length * 2", "./internal/daemon/supervisor Host"},

		// What watches.
		{"flapping", "internal/decide/health/state.go", "len(s.Changed) >= f.Turns {", "len(s.Changed) > f.Turns {", health},
		{"silence", "internal/decide/health/judge.go", "if q.Active(at) && q.Covers(", "if !q.Active(at) && q.Covers(", health},
		{"one cycle for one cause", "internal/decide/health/judge.go", "if v.belongs(s, i) && (by == nil", "if !v.belongs(s, i) && (by == nil", health},
		{"recovered is told", "internal/watch/dispute.go", `Key: "resolved:" + c.Environment + ":" + c.Key, Status: ops.NoticePending,`, `Key: "resolved:" + c.Environment, Status: ops.NoticeSent,`, "./internal/watch ^TestIncidentScenarios$"},

		// Who may.
		{"webhook secret", "internal/api/webhook/access.go", `return right != "" && subtle.`, `return right == "" || subtle.`, "./internal/api/webhook ."},
		{"other sites", "internal/web/security.go", "inside := origins.Handler(", "inside := http.Handler(", "./internal/web OtherSites"},
		{"roles", "internal/access/access.go", "return have >= 0 && have >= slices.Index(Roles(), allowed(o))", "return have >= 0 && slices.Index(Roles(), allowed(o)) >= 0", "./internal/access ."},

		// What holds agents.
		{"never", "internal/guard/guard.go", "if worst.need <= effective {", "if worst.need <= effective || worst.need == never && tier == ops.LastTier {", "./internal/guard Case|Never|Facts"},
		{"redaction", "internal/guard/redact/forms.go", "if len(text) < minSecret || seen[key] {", "if len(text) < 5*minSecret || seen[key] {", "./internal/guard/redact Configured"},
		{"push by force", "internal/act/deploy.go", `t.commit + ":refs/heads/" + branch,`, `"+" + t.commit + ":refs/heads/" + branch,`, "./internal/act Push"},
		{"push of what forges run", "internal/act/deploy.go", "sendable(ctx, repo, t.commit); err != nil {", "sendable(ctx, repo, t.commit); err != nil && t == nil {", "./internal/act Push"},
		{"network permits", "internal/guard/wall/network/gateway.go", "return Permit{}, unlisted\n", "return Permit{Host: host, Port: port, How: Raw}, \"\"\n", "./internal/guard/wall ^TestASessionReachesWhatIsListedAndNothingElse$"},
		{"hidden files", "internal/guard/wall/closed.go", "homeSecrets(), s.c.Hidden, ", "homeSecrets(), ", "./internal/guard/wall ^TestWhatOthersMayNotReadIsClosedAndSaysSo$"},
		{"the end of a session", "internal/agent/process/sweep.go", "_ = proc.Signal(syscall.SIGKILL)", "_ = proc.Signal(syscall.SIGCONT)", "./internal/agent ^TestWithoutAControlGroupTheSameHoldsByKey$|^TestADescendantWithoutTheKeyIsKilledWithTheTree$"},
	}
}
