//go:build tools

// Package suite names what the suite's tests import, so that `go mod tidy` keeps the checksums.
package suite

import _ "sigs.k8s.io/karpenter/test/pkg/environment/common"
