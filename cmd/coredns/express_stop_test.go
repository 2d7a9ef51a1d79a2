package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

const stopCorefile = `.:DNS {
    bind 127.0.0.1
    prometheus 127.0.0.1:METRICS
    clusterset clusterset.local svc.global {
        manifests OBJECTS
        OPTIONS
    }
    erratic {
        drop 0
        delay 2 5ms
    }
}
tls://.:SECURE {
    bind 127.0.0.1
    tls DIR/tls.crt DIR/tls.key
    prometheus 127.0.0.1:METRICS
    clusterset clusterset.local svc.global {
        manifests OBJECTS
        OPTIONS
    }
    erratic {
        drop 0
        delay 2 5ms
    }
}
`

// A server that gets SIGTERM while it is asked over TCP and TLS answers each query, or closes its connection, and ends.
func TestSIGTERMLosesNoQueryOfAConnection(t *testing.T) {
	secure := freeport.For(t)
	s := startExpress(t, strings.ReplaceAll(stopCorefile, "SECURE", secure), "express auto")
	expectLog(t, s.log, "express: on at tls://127.0.0.1:"+secure)
	var askers sync.WaitGroup
	var answered [2][]*atomic.Int64
	for over, network := range []string{"tcp", "tcp-tls"} {
		for i := range reloadQuestions {
			n := new(atomic.Int64)
			answered[over] = append(answered[over], n)
			askers.Go(func() {
				if problem := askUntilClosed(network, []string{s.dns, secure}[over], i, n); problem != "" {
					t.Errorf("%s: %s", network, problem)
				}
			})
		}
	}
	kube.Eventually(t, func() error {
		for over, all := range answered {
			for i, n := range all {
				if n.Load() < 50 {
					return fmt.Errorf("transport %d, question %d: only %d answers", over, i, n.Load())
				}
			}
		}
		return nil
	})
	if code := s.Stop(soon); code != 0 {
		t.Errorf("after SIGTERM: exit code %d\n%s", code, s.log)
	}
	askers.Wait()
}

// askUntilClosed sends a query over and over on one connection, and returns what is wrong.
func askUntilClosed(network, port string, i int, answered *atomic.Int64) (problem string) {
	client := &dns.Client{Net: network, Timeout: soon, TLSConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // ourselves
	conn, err := client.Dial("127.0.0.1:" + port)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	q := &reloadQuestions[i]
	for {
		m, _, err := client.ExchangeWithConn(new(dns.Msg).SetQuestion(q.name, q.qtype), conn)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			return fmt.Sprintf("no answer to %s, and the connection stays", q.name)
		case err != nil:
			return ""
		case !q.right(m):
			return fmt.Sprintf("a wrong answer:\n%s", m)
		}
		answered.Add(1)
	}
}
