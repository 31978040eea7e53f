#!/bin/sh
# A probe in nothing but curl: hands one condition report to the gateway as a CloudEvent.
#
#     ./probe.sh Node/n1 Ready=False KubeletStopped "the kubelet does not answer"
#     GATEWAY=http://127.0.0.1:8080 ./probe.sh Node/n1 DiskPressure=True
#     EVERY=10 ./probe.sh Node/n1 Ready=True      # a heartbeat every 10 s; what a silent probe said becomes Unknown
set -eu

target=${1:?usage: probe.sh KIND/NAME TYPE=STATUS [REASON] [MESSAGE]}
condition=${2:?usage: probe.sh KIND/NAME TYPE=STATUS [REASON] [MESSAGE]}
reason=${3:-}
message=${4:-}
gateway=${GATEWAY:-http://127.0.0.1:8080}

# JSON by hand: the arguments must not hold quotes or backslashes.
case "$*" in *[\"\\]*) echo "probe.sh: arguments must not hold quotes or backslashes" >&2; exit 2 ;; esac

report() {
	# Milliseconds, because a report of the second before would count as older. Not every date has %N.
	now=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
	case $now in *:[0-9][0-9].[0-9][0-9][0-9]Z) ;; *) now=$(date -u +%Y-%m-%dT%H:%M:%SZ) ;; esac
	# --fail-with-body: exit code 22 when the gateway refuses, and its reason on standard output.
	curl --silent --show-error --fail-with-body --noproxy '*' --write-out '\n' \
		--request POST "$gateway/v1/conditions" \
		--header 'content-type: application/cloudevents+json' \
		--data @- <<JSON
{
  "specversion": "1.0",
  "id": "probe-sh-$$-$(date +%s)",
  "source": "examples/probe.sh",
  "type": "io.moorage.condition.reported.v1",
  "time": "$now",
  "data": {
    "target": {"kind": "${target%%/*}", "name": "${target#*/}"},
    "type": "${condition%%=*}",
    "status": "${condition#*=}",
    "reason": "$reason",
    "message": "$message",
    "observedTime": "$now",
    "source": "examples/probe.sh"
  }
}
JSON
}

report
while [ -n "${EVERY:-}" ]; do
	sleep "$EVERY"
	report || true # the next one may arrive
done
