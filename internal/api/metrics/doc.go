// Package metrics tells Prometheus how the work goes: counted from the rows of the journal when it is asked, so that nothing
// is lost by a restart and every host tells the same.
//
// What has ended no longer changes, so it is added up once; each scrape reads only what came since.
package metrics
