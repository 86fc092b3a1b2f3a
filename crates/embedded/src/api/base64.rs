//! Bytes as text: base64 in both alphabets, as secrets, tokens and continue keys need it, and hex.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| {
            [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]
        })
        .map(char::from)
        .collect()
}

/// The URL alphabet without padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    write(bytes, URL)
}

/// The standard alphabet with padding.
pub(crate) fn encode_padded(bytes: &[u8]) -> String {
    let mut text = write(bytes, STANDARD);
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

fn write(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for index in 0..=chunk.len() {
            let letter = (word >> (18 - 6 * index)) & 63;
            text.push(char::from(alphabet[letter as usize]));
        }
    }
    text
}

/// Either alphabet, padded or not; `None` for anything else.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if text.len() - body.len() > 2 || body.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(body.len() * 3 / 4);
    let (mut word, mut bits) = (0u32, 0u32);
    for letter in body.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        word = (word << 6) | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from((word >> bits) & 0xff).unwrap_or_default());
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_round_trip() {
        for text in ["", "a", "ab", "abc", "any carnal pleas>>>???"] {
            assert_eq!(decode(&encode(text.as_bytes())).unwrap(), text.as_bytes());
            assert_eq!(
                decode(&encode_padded(text.as_bytes())).unwrap(),
                text.as_bytes()
            );
        }
        assert_eq!(encode_padded(b"user"), "dXNlcg==");
        assert!(decode("a").is_none());
        assert!(decode("a*cd").is_none());
    }
}
