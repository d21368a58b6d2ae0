package guard

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/guard/scan"
	"claudeops/internal/ops"
)

// maxCommands is how many simple commands one call may run through.
const maxCommands = 2000

// Guard judges tool calls. It holds tables only and may be used by many at once.
type Guard struct {
	tables    *tables
	variables variableTable
	secrets   nameTable
	owned     nameTable
	sql       scan.Words
	judges    map[string]judgement
	rules     []Rule
	readers   sync.Pool
}

// New makes a guard with the built-in tables and the operator's rules.
func New(rules []Rule) (*Guard, error) {
	t, err := readTables()
	if err != nil {
		return nil, err
	}
	variables, _, _, err := namesFile("variables.list")
	if err != nil {
		return nil, err
	}
	places, _, _, err := namesFile("places.list")
	if err != nil {
		return nil, err
	}
	sql, _, _, err := namesFile("sql.list")
	if err != nil {
		return nil, err
	}
	g := &Guard{
		sql:    scan.Words{Functions: nameSet(sql["function"]), Pragmas: nameSet(sql["pragma"])},
		tables: t, variables: newVariableTable(variables), judges: judgements(), rules: rules,
		secrets: newNameTable(places["secret"]), owned: newNameTable(places["own"]),
		readers: sync.Pool{New: func() any { return newReader() }},
	}
	g.secrets.Broad = true
	for _, r := range t.order {
		for _, name := range r.judges {
			if g.judges[name].judge == nil {
				return nil, fmt.Errorf("%s: there is no judge called %q", r.cmd, name)
			}
		}
		if r.alias != "" && t.find(r.cmd) == nil {
			return nil, fmt.Errorf("%s: there is no command %q", r.cmd, r.alias)
		}
	}
	return g, nil
}

// command judges a Bash command.
func (g *Guard) command(tier ops.Tier, src string, facts Facts) Decision {
	r := g.readers.Get().(*reader) // not given back after a panic
	d := g.judged(r, tier, src, facts)
	g.readers.Put(r)
	return d
}

func (g *Guard) judged(r *reader, tier ops.Tier, src string, facts Facts) Decision {
	parsed, bad := r.parse(src)
	if bad != nil {
		return decide(tier, facts, bad, ruleBash)
	}
	j := g.walk(r, parsed.file, &facts)
	d := decide(tier, facts, j.worst, ruleBash)
	if d.Verdict == Allow {
		d.Script = parsed.text
		if len(j.added) > 0 {
			addWords(parsed.file, j.added)
			if d.Script, bad = r.print(parsed.file); bad != nil {
				return decide(tier, facts, bad, ruleBash)
			}
		}
		if len(j.effects) > 0 {
			d.Effects = j.effects
		}
		if j.named != "" {
			d.Rule = j.named
		}
	}
	return d
}

// walk judges every part of a tree.
func (g *Guard) walk(r *reader, f *syntax.File, facts *Facts) *judge {
	facts = g.extended(facts)
	j := &judge{g: g, reader: r, facts: facts, rest: maxCommands, funcs: map[string]*function{}, waits: waitsAtEnd(f)}
	for _, dir := range facts.repos() {
		j.repos = append(j.repos, path.Clean(dir))
	}
	s := &scope{vars: map[string]value{}}
	if facts.StateDir != "" {
		// The supervisor sets it, nothing may change it, and agents are told to read and write there by this name.
		s.vars["CLAUDEOPS_STATE_DIR"] = value{known: true, text: facts.StateDir}
	}
	if facts.OwnTemp {
		s.vars["TMPDIR"] = value{known: true, text: facts.TempDir, inline: true}
	}
	if facts.Cwd != "" {
		s.cwds = []string{path.Clean(facts.Cwd)}
	}
	j.stmts(s, f.Stmts)
	if j.fetched != "" && j.stored != "" {
		j.refuse(ruleBash, j.fetched+" together with "+j.stored, "what comes from elsewhere is not stored, it may be code", "print it only")
	}
	return j
}

// waitsAtEnd reports a script whose last command waits for its background jobs.
func waitsAtEnd(f *syntax.File) bool {
	call, ok := f.Stmts[len(f.Stmts)-1].Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) == 1 && call.Args[0].Lit() == "wait"
}

// extended are the facts with what the operator's rules add.
func (g *Guard) extended(f *Facts) *Facts {
	if len(g.rules) == 0 {
		return f
	}
	out := *f
	for _, r := range g.rules {
		out.InventoryHosts = slices.Concat(out.InventoryHosts, r.Hosts)
		out.Repositories = slices.Concat(out.Repositories, r.Repositories)
		out.ProtectedFiles = slices.Concat(out.ProtectedFiles, r.Protected)
		out.WebHosts = slices.Concat(out.WebHosts, r.WebHosts)
		if len(r.MCPTools) > 0 {
			out.MCPTools = maps.Clone(out.MCPTools)
			if out.MCPTools == nil {
				out.MCPTools = map[ops.Tier][]string{}
			}
			out.MCPTools[r.Tier] = slices.Concat(out.MCPTools[r.Tier], r.MCPTools)
		}
		for _, s := range r.Services {
			out.Services = append(slices.Clone(out.Services), ops.Service{Name: s})
		}
	}
	return &out
}

// decide turns the strictest finding into the answer.
func decide(tier ops.Tier, facts Facts, worst *finding, rule string) Decision {
	effective := tier
	if facts.DryRun {
		effective = ops.Tier1
	}
	if !tier.Known() {
		return Decision{Verdict: Deny, Rule: rule, Reason: fmt.Sprintf("%s is not a tier of this product, so nothing is allowed.", tier)}
	}
	if worst == nil {
		worst = &finding{need: ops.Tier1, rule: rule, what: "this call"}
	}
	if worst.need <= effective {
		return Decision{Verdict: Allow, Rule: rule, Reason: fmt.Sprintf("%s is allowed from %s.", worst.what, worst.need)}
	}
	d := Decision{Verdict: Deny, Rule: worst.rule, Reason: worst.reason(effective, facts.DryRun)}
	if facts.DryRun && worst.need <= tier {
		d.Rule = ruleDryRun
	}
	return d
}
