package main

import (
	"fmt"
	"math"
	"time"
)

const (
	// use is how much of a resource may be used on average: waiting times grow without bound near the whole.
	use = 0.7
	// A busy site: ten environments with 500 chains a day together, each of three tiers.
	siteEnvironments = 10
	siteChainsPerDay = 500
	// agentTime is how long the agents of one real chain run: an assumption, three tiers of two minutes.
	agentTime = 6 * time.Minute
	// clientConnections is how many connections one PostgreSQL is given here: more need a pooler.
	clientConnections = 500
	day               = 24 * time.Hour
)

// capacity computes what one PostgreSQL can carry.
type capacity struct {
	cores, flushes float64 // of the database's machine
	chain          chainCost
	environment    restCost // per second
	host           restCost
}

// chainsPerMinute is the largest rate and what limits it, with no environment at rest.
func (c capacity) chainsPerMinute() (rate float64, limit string) {
	processor := use * c.cores / c.chain.database.Seconds() * 60
	flush := use * c.flushes / c.chain.flushes * 60
	if flush < processor {
		return flush, "durable writes, if no two commits share one"
	}
	return processor, "processor"
}

// environments is how many environments fit when each has the chains of a busy site.
func (c capacity) environments() float64 {
	perEnvironment := float64(siteChainsPerDay) / siteEnvironments / day.Seconds() // chains in a second
	processor := use * c.cores / (c.environment.database.Seconds() + perEnvironment*c.chain.database.Seconds())
	flush := use * c.flushes / (math.Max(c.environment.flushes, 0) + perEnvironment*c.chain.flushes)
	return math.Min(processor, flush)
}

func (c capacity) figures() []figure {
	rate, limit := c.chainsPerMinute()
	out := []figure{
		{"durable writes of a page in a second, one after the other", fmt.Sprintf("%.0f", c.flushes), ""},
		{
			fmt.Sprintf("computed: most chains on one PostgreSQL with %.0f cores, %.0f %% used", c.cores, 100*use),
			fmt.Sprintf("%.0f in a minute; limit: %s", rate, limit), "",
		},
		{
			"computed: most environments, each with 50 chains a day",
			fmt.Sprintf("%.0f; hosts at %d connections: %.0f", c.environments(), clientConnections, clientConnections/math.Max(c.host.connections, 1)), "",
		},
	}
	for _, sites := range []float64{10, 100, 1000} {
		perMinute := sites * siteChainsPerDay / day.Minutes()
		database := perMinute/60*c.chain.database.Seconds() + sites*siteEnvironments*c.environment.database.Seconds()
		commits := perMinute/60*c.chain.commits + sites*siteEnvironments*c.environment.commits
		flushes := perMinute/60*c.chain.flushes + sites*siteEnvironments*math.Max(c.environment.flushes, 0)
		supervisor := perMinute/60*c.chain.supervisor.Seconds() + sites*siteEnvironments*c.environment.supervisor.Seconds()
		stored := sites * siteChainsPerDay * c.chain.stored
		out = append(out, figure{
			fmt.Sprintf("computed: %.0f sites (%.0f environments, %.1f chains in a minute)", sites, sites*siteEnvironments, perMinute),
			fmt.Sprintf("%.0f agents at once; database %.2f cores, %.0f transactions/s, %.0f flushes/s, %.2f GB a day; supervisors %.2f cores; %.0f cells of this machine",
				perMinute*agentTime.Minutes(), database, commits, flushes, stored/1e9, supervisor, math.Ceil(sites*siteEnvironments/c.environments())), "",
		})
	}
	return out
}

func costFigures(pg, lite chainCost, host, env restCost) []figure {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
	return []figure{
		{
			fmt.Sprintf("one chain of three tiers on PostgreSQL (mean of %d)", costChains),
			fmt.Sprintf("%.0f transactions, %.0f flushes, %.0f rows written, %.0f kB of WAL, %.0f kB more on disk", pg.commits, pg.flushes, pg.rows,
				pg.wal/1000, pg.stored/1000), "",
		},
		{"… processor", fmt.Sprintf("database %s, supervisor %s, agents and walls %s", ms(pg.database), ms(pg.supervisor), ms(pg.agents)), ""},
		{"… alone, from the request to the end of the last agent", ms(pg.alone), ""},
		{"… bytes of transcript", fmt.Sprintf("%.0f", pg.transcript), ""},
		{
			"the same chain on SQLite",
			fmt.Sprintf("%.0f commits, %.0f rows more, %.0f kB of WAL; supervisor and database %s, agents and walls %s; alone %s", lite.commits,
				lite.rows, lite.wal/1000, ms(lite.supervisor), ms(lite.agents), ms(lite.alone)), "",
		},
		{
			"a host at rest with one environment, in a second",
			fmt.Sprintf("%.1f transactions, %.1f flushes, %.1f kB of WAL, database %s, supervisor %s, %.0f connections", host.commits, host.flushes, host.wal/1000,
				ms(host.database), ms(host.supervisor), host.connections), "",
		},
		{
			"each further environment at rest, in a second",
			fmt.Sprintf("%.2f transactions, %.2f flushes, %.2f kB of WAL, database %.3f ms, supervisor %.3f ms", env.commits, env.flushes, env.wal/1000,
				env.database.Seconds()*1000, env.supervisor.Seconds()*1000), "",
		},
	}
}
