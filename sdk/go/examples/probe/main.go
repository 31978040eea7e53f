// A probe in Go, written from the contract alone. It reports one condition of one target, once or again and again.
//
//	go run ./probe Node/n1 DiskPressure=True --reason Full --every 10s
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	moorage "github.com/moorage/moorage/sdk/go"
)

const (
	limit   = 30 * time.Second // for a single report
	longest = 10 * time.Second
)

// send tries until Moorage has the report. A report that is sent twice counts once, because its time is the same.
func send(ctx context.Context, gateway *moorage.Gateway, report moorage.Report) ([]moorage.Refusal, error) {
	pause := 200 * time.Millisecond
	for {
		refused, err := gateway.Send(ctx, []moorage.Report{report})
		if err == nil || ctx.Err() != nil {
			return refused, err
		}
		fmt.Fprintf(os.Stderr, "probe: %v; tried again\n", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
		pause = min(2*pause, longest)
	}
}

func main() {
	flags := flag.NewFlagSet("probe", flag.ExitOnError)
	reason := flags.String("reason", "", "the reason as one word")
	source := flags.String("source", "examples/go-probe", "the source of the report")
	every := flags.Duration("every", 0, "repeat the report at this interval, well within the grace period of 40s")
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "probe: give a target (Kind/name) and a condition (TYPE=STATUS)")
		os.Exit(2)
	}
	flags.Parse(os.Args[3:])
	condition, status, _ := strings.Cut(os.Args[2], "=")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	gateway := moorage.NewGateway()
	for {
		// Your probe observes the target here.
		report := moorage.Report{Target: moorage.ParseTarget(os.Args[1]), Type: condition, Status: status,
			Reason: *reason, Source: *source, ObservedTime: time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")}
		one, cancel := context.WithTimeout(ctx, limit)
		refused, err := send(one, gateway, report)
		cancel()
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "probe: Moorage does not accept the report: %v\n", err)
		}
		for _, refusal := range refused {
			fmt.Fprintf(os.Stderr, "probe: the report does not count: %s: %s\n", refusal.Reason, refusal.Message)
		}
		if *every == 0 && (err != nil || len(refused) > 0) {
			os.Exit(1)
		}
		if *every == 0 {
			fmt.Println(report.ObservedTime, os.Args[1], condition)
			return
		}
		select {
		case <-time.After(*every):
		case <-ctx.Done():
			return
		}
	}
}
