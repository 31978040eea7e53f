package moorage

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	silence = 45 * time.Second // the gateway says something more often
	longest = 30 * time.Second
)

func itoa(number int64) string { return strconv.FormatInt(number, 10) }

// Gateway is where Moorage is. MOORAGE_SERVER and MOORAGE_TOKEN_FILE set it.
type Gateway struct {
	server, tokenFile string
	http              http.Client
}

// NewGateway reads the environment.
func NewGateway() *Gateway {
	server := strings.TrimRight(os.Getenv("MOORAGE_SERVER"), "/")
	if server == "" {
		server = "http://127.0.0.1:8080"
	}
	return &Gateway{server: server, tokenFile: os.Getenv("MOORAGE_TOKEN_FILE")}
}

func (g *Gateway) send(ctx context.Context, method, path string, body []byte, headers map[string]string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, g.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	if g.tokenFile != "" {
		token, err := os.ReadFile(g.tokenFile) // again each time: tokens are renewed
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	return g.http.Do(request)
}

// Report is a condition of a target, or of a workload there.
type Report struct {
	Target            Target    `json:"target"`
	Workload          *Workload `json:"workload,omitempty"`
	WorkloadUID       string    `json:"workloadUid,omitempty"` // of the binding that the report is about
	BindingGeneration int64     `json:"bindingGeneration,omitempty"`
	Type              string    `json:"type"`
	Status            string    `json:"status"`
	Reason            string    `json:"reason"`
	Message           string    `json:"message,omitempty"`
	ObservedTime      string    `json:"observedTime"`
	Source            string    `json:"source"`
}

// Refusal is a report that does not count, and why.
type Refusal struct{ Reason, Message string }

// Send sends reports as one batch. An error means that they may be sent again; refusals will not change.
func (g *Gateway) Send(ctx context.Context, reports []Report) ([]Refusal, error) {
	events := []map[string]any{}
	for _, report := range reports {
		workload := ""
		if report.Workload != nil {
			workload = report.Workload.Key()
		}
		// The id follows from the observation, so a report that is sent again counts once.
		observed := []string{report.Source, report.Target.Key(), workload, report.Type, report.ObservedTime,
			report.Status, report.Reason, report.WorkloadUID, itoa(report.BindingGeneration)}
		id := sha256.Sum256([]byte(strings.Join(observed, "\x1f")))
		events = append(events, map[string]any{
			"specversion": "1.0", "type": "io.moorage.condition.reported.v1", "source": report.Source,
			"id": hex.EncodeToString(id[:16]), "datacontenttype": "application/json", "data": report,
		})
	}
	body, err := json.Marshal(events)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	headers := map[string]string{"Content-Type": "application/cloudevents-batch+json"}
	answer, err := g.send(ctx, http.MethodPost, "/v1/conditions", body, headers)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	var outcome struct {
		Kind  string
		Items []struct {
			Outcome string
			Status  struct{ Reason, Message string }
		}
	}
	if json.Unmarshal(content, &outcome) != nil || outcome.Kind != "ReportOutcomeList" {
		return nil, fmt.Errorf("the gateway answers %s: %s", answer.Status, content)
	}
	refused := []Refusal{}
	for _, item := range outcome.Items {
		if item.Outcome == "Refused" {
			refused = append(refused, Refusal{item.Status.Reason, item.Status.Message})
		}
	}
	return refused, nil
}

// isOld tells whether an event was there before. Ids are versions, and increase.
func isOld(id, last string) bool {
	number, err := strconv.ParseInt(id, 10, 64)
	known, other := strconv.ParseInt(last, 10, 64)
	return err == nil && other == nil && number <= known
}

// Event is a server-sent event.
type Event struct{ Name, ID, Data string }

// Follow gives the events of GET /v1/decisions to a channel until the context ends. It goes on where it was after an
// interruption, once the present was reached.
func (g *Gateway) Follow(ctx context.Context, targets []string, events chan<- Event) {
	last, failures := "", 0
	for ctx.Err() == nil {
		err := g.stream(ctx, targets, &last, func(event Event) { failures = 0; events <- event })
		pause := min(longest, 200*time.Millisecond<<min(failures, 10))
		failures++
		fmt.Fprintf(os.Stderr, "deployer: %v\n", err)
		select {
		case <-time.After(pause/2 + mathrand.N(pause/2+1)): // many deployers do not come back at the same moment
		case <-ctx.Done():
		}
	}
}

func (g *Gateway) stream(ctx context.Context, targets []string, last *string, take func(Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	headers := map[string]string{}
	if *last != "" {
		headers["Last-Event-ID"] = *last
	}
	query := url.Values{"target": targets}
	answer, err := g.send(ctx, http.MethodGet, "/v1/decisions?"+query.Encode(), nil, headers)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
		return fmt.Errorf("the gateway answers %s: %s", answer.Status, content)
	}
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	reader, event, isPresent := bufio.NewReader(answer.Body), Event{}, *last != ""
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return errors.Join(errors.New("the stream was interrupted"), err)
		}
		watchdog.Reset(silence)
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if event.Name == "reset" {
				*last, isPresent = "", false
			}
			if event.Name == "present" {
				isPresent = true
			}
			if event.Name != "" && !(isPresent && event.Name != "present" && isOld(event.ID, *last)) {
				take(event)
			}
			if isPresent && event.ID != "" {
				*last = event.ID
			}
			event = Event{}
		case field == "event":
			event.Name = value
		case field == "id":
			event.ID = value
		case field == "data":
			event.Data += value
		}
	}
}
