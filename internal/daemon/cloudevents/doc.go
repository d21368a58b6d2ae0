// Package cloudevents tells receivers outside about cycles, incidents, approvals and actions, as CloudEvents 1.0 over HTTP.
//
// What happened is found in the rows of the journal: each time in a row (created, ended, acknowledged …) is one event, whose id is made
// from the row. Found events are written to a table in one order. Each receiver takes them in that order, and how far it has got is
// recorded after it has taken one. So nothing is lost, nothing is written in the transactions of the work itself, and an event that is
// sent again after a crash has the same id.
package cloudevents
