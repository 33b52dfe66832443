//! Numbers as the multi-buffer library has them: little-endian 64-bit words; and the two moduli of P-256.

use zeroize::Zeroize;

/// A number of 256 bits.
pub(crate) type Words4 = [u64; 4];
/// Half an RSA modulus of up to 4096 bits.
pub(crate) type Words32 = [u64; 32];
/// An RSA modulus of up to 4096 bits.
pub(crate) type Words64 = [u64; 64];
/// A number of up to 4096 bits as big-endian text, in the first bytes.
pub(crate) type Block = [u8; 512];

/// The order of the group of P-256 (SEC 2, section 2.4.2).
pub(crate) const P256_ORDER: Words4 =
    [0xf3b9_cac2_fc63_2551, 0xbce6_faad_a717_9e84, 0xffff_ffff_ffff_ffff, 0xffff_ffff_0000_0000];

/// The field's prime of P-256 (SEC 2, section 2.4.2).
pub(crate) const P256_PRIME: Words4 =
    [0xffff_ffff_ffff_ffff, 0x0000_0000_ffff_ffff, 0x0000_0000_0000_0000, 0xffff_ffff_0000_0001];

/// The words of a big-endian number; `None` where it does not fit.
pub(crate) fn from_big_endian<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let bytes = &bytes[first..];
    if bytes.len() > N * 8 {
        return None;
    }
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(bytes.rchunks(8)) {
        *word = chunk.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    }
    Some(words)
}

/// The big-endian text of a number of 256 bits.
pub(crate) fn to_big_endian(words: &Words4) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes
        .chunks_mut(8)
        .zip(words.iter().rev())
        .for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_be_bytes()));
    bytes
}

/// The words of 32 little-endian bytes.
pub(crate) fn from_little_endian(bytes: &[u8; 32]) -> Words4 {
    let mut words = [0; 4];
    let mut chunk = [0; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        chunk.copy_from_slice(bytes);
        *word = u64::from_le_bytes(chunk);
    }
    chunk.zeroize();
    words
}

/// The little-endian bytes of a number of 256 bits.
pub(crate) fn to_little_endian(words: &Words4) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).zip(words).for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_le_bytes()));
    bytes
}

/// Whether one number is less than another. It takes the same time whatever the numbers.
pub(crate) fn is_less(left: &Words4, right: &Words4) -> bool {
    difference(left, right).1
}

/// Whether a number is 0.
pub(crate) fn is_zero(words: &Words4) -> bool {
    words.iter().fold(0, |all, word| all | word) == 0
}

/// One of the two moduli of P-256, both between 2^255 and 2^256.
struct Modulus {
    value: Words4,
    /// The value's lowest word times this is -1 modulo 2^64.
    negative_inverse: u64,
}

const ORDER: Modulus = Modulus { value: P256_ORDER, negative_inverse: 0xccd1_c8aa_ee00_bc4f };
const PRIME: Modulus = Modulus { value: P256_PRIME, negative_inverse: 1 };

/// 2^512 modulo the prime: a product with it brings a number into Montgomery's form, times 2^256.
const PRIME_SQUARED_RADIX: Words4 =
    [0x0000_0000_0000_0003, 0xffff_fffb_ffff_ffff, 0xffff_ffff_ffff_fffe, 0x0000_0004_ffff_fffd];

/// The coefficient b of the curve (SEC 2, section 2.4.2), in Montgomery's form.
const P256_B: Words4 =
    [0xd89c_df62_29c4_bddf, 0xacf0_05cd_7884_3090, 0xe5a2_20ab_f721_2ed6, 0xdc30_061d_0487_4834];

/// A number of 256 bits modulo the order of P-256's group, of which it is less than twice.
pub(crate) fn modulo_order(number: &Words4) -> Words4 {
    ORDER.remainder(number, false)
}

/// The sum of two numbers modulo the order of P-256's group, for numbers below it.
pub(crate) fn order_sum(left: &Words4, right: &Words4) -> Words4 {
    ORDER.sum(left, right)
}

/// `left * right / 2^256` modulo the order of P-256's group, for numbers of which one is below it.
pub(crate) fn order_product(left: &Words4, right: &Words4) -> Words4 {
    ORDER.product(left, right)
}

/// Whether a point is one of P-256: y² = x³ − 3x + b, both coordinates below the prime (SEC 2, section 2.4.2).
pub(crate) fn is_on_curve(x: &Words4, y: &Words4) -> bool {
    let [x_form, y_form] = [x, y].map(|number| PRIME.product(number, &PRIME_SQUARED_RADIX));
    let cube = PRIME.product(&PRIME.product(&x_form, &x_form), &x_form);
    let thrice = PRIME.sum(&PRIME.sum(&x_form, &x_form), &x_form);
    let left = PRIME.sum(&PRIME.product(&y_form, &y_form), &thrice);
    let is_in_field = [x, y].into_iter().all(|number| is_less(number, &P256_PRIME));
    is_in_field && left == PRIME.sum(&cube, &P256_B)
}

impl Modulus {
    fn sum(&self, left: &Words4, right: &Words4) -> Words4 {
        let mut sum = [0; 4];
        let mut carry = false;
        for ((sum, left), right) in sum.iter_mut().zip(left).zip(right) {
            let (value, wrapped) = left.overflowing_add(*right);
            let (value, wrapped_again) = value.overflowing_add(u64::from(carry));
            (*sum, carry) = (value, wrapped | wrapped_again);
        }
        self.remainder(&sum, carry)
    }

    /// `left * right / 2^256`: a product by Montgomery's method, operand scanning (Koc, Acar, Kaliski, "Analyzing and
    /// comparing Montgomery multiplication algorithms", section 5). It takes the same time whatever the numbers.
    fn product(&self, left: &Words4, right: &Words4) -> Words4 {
        let mut sum = [0_u64; 5];
        for multiplier in right {
            let overflow = add_product(&mut sum, left, *multiplier);
            // A multiple of the modulus makes the lowest word 0, which is then dropped.
            let multiple = sum[0].wrapping_mul(self.negative_inverse);
            let overflow = overflow + add_product(&mut sum, &self.value, multiple);
            sum = [sum[1], sum[2], sum[3], sum[4], overflow];
        }
        let [low @ .., high] = sum;
        self.remainder(&low, high != 0)
    }

    /// A number of 257 bits, less than twice the modulus.
    fn remainder(&self, low: &Words4, high: bool) -> Words4 {
        let (less, wrapped) = difference(low, &self.value);
        let keep = u64::from(wrapped & !high).wrapping_neg();
        std::array::from_fn(|index| low[index] & keep | less[index] & !keep)
    }
}

/// Adds `left * multiplier` to `sum`; returns what does not fit.
fn add_product(sum: &mut [u64; 5], left: &Words4, multiplier: u64) -> u64 {
    let mut carry = 0;
    for (sum, left) in sum.iter_mut().zip(left) {
        let value = u128::from(*left) * u128::from(multiplier) + u128::from(*sum) + carry;
        *sum = value as u64;
        carry = value >> 64;
    }
    let value = u128::from(sum[4]) + carry;
    sum[4] = value as u64;
    (value >> 64) as u64
}

/// `left - right` modulo 2^256, and whether it wrapped.
fn difference(left: &Words4, right: &Words4) -> (Words4, bool) {
    let mut result = [0; 4];
    let mut borrow = false;
    for ((result, left), right) in result.iter_mut().zip(left).zip(right) {
        let (value, wrapped) = left.overflowing_sub(*right);
        let (value, wrapped_again) = value.overflowing_sub(u64::from(borrow));
        (*result, borrow) = (value, wrapped | wrapped_again);
    }
    (result, borrow)
}

#[cfg(test)]
mod tests {
    use openssl::bn::BigNum;
    use proptest::prelude::*;

    use super::*;

    fn number(words: &Words4) -> BigNum {
        BigNum::from_slice(&to_big_endian(words)).unwrap()
    }

    /// Numbers of all sizes, near the moduli too.
    fn numbers() -> impl Strategy<Value = Words4> {
        let near = |modulus: Words4| {
            (0_u64..5, any::<bool>()).prop_map(move |(distance, above)| {
                let mut words = modulus;
                words[0] = if above { words[0].wrapping_add(distance) } else { words[0] - distance };
                words
            })
        };
        prop_oneof![
            any::<Words4>(),
            near(P256_ORDER),
            near(P256_PRIME),
            (0_u64..3).prop_map(|low| [low, 0, 0, 0])
        ]
    }

    proptest! {
        #[test]
        fn arithmetic_equals_openssls(left in numbers(), right in numbers()) {
            prop_assert_eq!(is_less(&left, &right), number(&left) < number(&right));
            let order = number(&P256_ORDER);
            let mut expected = BigNum::new().unwrap();
            let mut context = openssl::bn::BigNumContext::new().unwrap();
            expected.nnmod(&number(&left), &order, &mut context).unwrap();
            prop_assert!(number(&modulo_order(&left)) == expected);

            let right = modulo_order(&right);
            expected.mod_add(&number(&modulo_order(&left)), &number(&right), &order, &mut context).unwrap();
            prop_assert!(number(&order_sum(&modulo_order(&left), &right)) == expected);

            // What 2^256 divides on one side multiplies on the other.
            let product = number(&order_product(&left, &right));
            let mut radix = BigNum::new().unwrap();
            radix.lshift(&BigNum::from_u32(1).unwrap(), 256).unwrap();
            let mut back = BigNum::new().unwrap();
            back.mod_mul(&product, &radix, &order, &mut context).unwrap();
            expected.mod_mul(&number(&left), &number(&right), &order, &mut context).unwrap();
            prop_assert!(back == expected && product < order);
        }

        #[test]
        fn points_are_told_from_what_is_none(secret in prop::array::uniform32(any::<u8>()), byte in 0_usize..64, bit in 0_u8..8) {
            use openssl::ec::{EcGroup, EcPoint};
            let group = EcGroup::from_curve_name(openssl::nid::Nid::X9_62_PRIME256V1).unwrap();
            let mut context = openssl::bn::BigNumContext::new().unwrap();
            let secret = BigNum::from_slice(&secret).unwrap();
            prop_assume!(secret.num_bits() > 0);
            let mut point = EcPoint::new(&group).unwrap();
            point.mul_generator2(&group, &secret, &mut context).unwrap();
            let [mut x, mut y] = [(); 2].map(|()| BigNum::new().unwrap());
            point.affine_coordinates(&group, &mut x, &mut y, &mut context).unwrap();
            let [mut x, mut y] = [x, y].map(|number| from_big_endian::<4>(&number.to_vec()).unwrap());
            prop_assert!(is_on_curve(&x, &y));
            let half = if byte < 32 { &mut x } else { &mut y };
            half[byte % 32 / 8] ^= 1 << (byte % 8 * 8 + usize::from(bit));
            prop_assert!(!is_on_curve(&x, &y));
        }

        #[test]
        fn texts_are_read_back(words: Words4, zeros in 0_usize..3) {
            let text = [vec![0; zeros], to_big_endian(&words).to_vec()].concat();
            prop_assert_eq!(from_big_endian::<4>(&text), Some(words));
            prop_assert_eq!(from_little_endian(&to_little_endian(&words)), words);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(from_big_endian::<4>(&[1; 33]), None);
        assert_eq!(from_big_endian::<4>(&[]), Some([0; 4]));
        assert_eq!(from_big_endian::<4>(&[1, 2]), Some([0x0102, 0, 0, 0]));
    }

    #[test]
    fn the_moduli_are_those_of_the_curve() {
        use openssl::ec::EcGroup;
        use openssl::nid::Nid;
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let mut context = openssl::bn::BigNumContext::new().unwrap();
        let [mut p, mut a, mut b, mut order] = [(); 4].map(|()| BigNum::new().unwrap());
        group.components_gfp(&mut p, &mut a, &mut b, &mut context).unwrap();
        group.order(&mut order, &mut context).unwrap();
        assert!(number(&P256_PRIME) == p && number(&P256_ORDER) == order);
        assert!(number(&PRIME.product(&P256_B, &[1, 0, 0, 0])) == b);
        assert!(!is_on_curve(&[0; 4], &[0; 4]) && !is_on_curve(&P256_PRIME, &[0; 4]));
    }
}
